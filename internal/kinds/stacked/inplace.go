package stacked

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/certs"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

// Goal implements group.Kind.
func (*Kind) Goal(t *observe.View) drift.Goal {
	spec := of(t).Spec
	return drift.NewGoal(spec.Version, spec.KubeadmConfigSpec.ClusterConfiguration,
		spec.MachineTemplate.Spec.InfrastructureRef).WithKubelets(spec.KubeadmConfigSpec).WithFiles(&spec.KubeadmConfigSpec)
}

// Desired implements group.Kind.
func (*Kind) Desired(t *observe.View, m *observe.Machine) client.Object {
	config := kubeadmConfig(m)
	if config == nil {
		return m.Bootstrap
	}
	after := config.DeepCopy()
	after.Spec = drift.Desired(withGates(wantedAs(t, m)), partsOf(m))
	return after
}

// Record implements group.Kind. The upgrade has renewed the certificates: when they expire is written again, and not taken away until
// it is known, since a reader that finds no date keeps the last one that it read.
func (*Kind) Record(ctx context.Context, t *act.Writer, m *observe.Machine, after *clusterv1.Machine, goal drift.Goal) error {
	record, known := goal.RecordOf(partsOf(m))
	if _, annotated := after.Annotations[drift.RecordAnnotation]; annotated && known {
		after.Annotations[drift.RecordAnnotation] = drift.RecordText(record)
	}
	end, err := newEnd(ctx, t, m)
	if err != nil {
		return err
	}
	redate(after, end)
	config := kubeadmConfig(m)
	if config == nil {
		return nil
	}
	written := config.DeepCopy()
	redate(written, end)
	if known {
		written.Spec.ClusterConfiguration = record
	}
	goal.RecordKubelet(&written.Spec)
	goal.RecordFiles(&written.Spec)
	if err := t.Change(ctx, config, written); err != nil {
		return fmt.Errorf("recording the update of Machine %s in its KubeadmConfig: %w", m.Name, err)
	}
	m.Bootstrap = written
	t.Memory.Parts.Expect(written, t.Facts.Now)
	return nil
}

// renewedTime is how long an API server may take to show its new certificate.
const renewedTime = 3 * time.Second

// redate writes again when certificates expire, where an object says so and it is known.
func redate(object metav1.Object, end time.Time) {
	if _, dated := object.GetAnnotations()[clusterv1.MachineCertificatesExpiryDateAnnotation]; dated && !end.IsZero() {
		object.GetAnnotations()[clusterv1.MachineCertificatesExpiryDateAnnotation] = end.UTC().Format(time.RFC3339)
	}
}

// newEnd asks the API server of a machine that was upgraded when its certificate expires now. Zero: nothing was done on the node, or there
// is no record of when the one before expires.
func newEnd(ctx context.Context, t *act.Writer, m *observe.Machine) (time.Time, error) {
	if t.Updates.Of(m.Name) == nil || partsOf(m).CertificatesEnd().IsZero() {
		return time.Time{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, renewedTime)
	defer cancel()
	end, err := certs.APIServerEnd(ctx, apiServerOf(t.Observer, m))
	if err != nil {
		return time.Time{}, fmt.Errorf("asking the API server of Machine %s for its new certificate: %w", m.Name, err)
	}
	memoryOf(t.Memory).expiries.Done(m.UID, end, nil, t.Facts.Now)
	return end, nil
}
