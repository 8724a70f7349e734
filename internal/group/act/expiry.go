package act

import (
	"context"
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/group/observe"
)

// RecordExpiry writes onto a machine's bootstrap object when its certificate expires: from there the rules have it, and Cluster API the
// Machine's status. One that has changed since it was read is left to the next turn, which comes soon.
func (t *Writer) RecordExpiry(ctx context.Context, m *observe.Machine, end time.Time) error {
	if t.Memory.Dated.Awaits(m.Bootstrap, t.Facts.Now) {
		return nil
	}
	after := m.Bootstrap.DeepCopyObject().(client.Object)
	date := map[string]string{clusterv1.MachineCertificatesExpiryDateAnnotation: end.UTC().Format(time.RFC3339)}
	if changed := annotations.AddAnnotations(after, date); !changed {
		return nil
	}
	err := t.Change(ctx, m.Bootstrap, after)
	if t.LookAgain(err) != nil {
		return fmt.Errorf("recording when the certificate of Machine %s expires: %w", m.Name, err)
	}
	if err == nil {
		m.Bootstrap = after
		t.Memory.Dated.Expect(after, t.Facts.Now)
	}
	return nil
}
