package etcdcluster

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

// Bootstrap implements group.Kind. Who begins the etcd cluster, and through whom the others join, the bootstrap provider decides.
func (k *Kind) Bootstrap(_ context.Context, t *observe.View, step plan.Step) (client.Object, clusterv1.Bootstrap, error) {
	carries := k.InPlace(t, &observe.Machine{Machine: &clusterv1.Machine{}, Bootstrap: &bootstrapv1alpha1.EtcdadmConfig{}}).Config
	made := &bootstrapv1alpha1.EtcdadmConfig{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: t.Object.GetNamespace(), Name: step.Machine, Labels: carries.Labels, Annotations: carries.Annotations,
			OwnerReferences: []metav1.OwnerReference{t.OwnerRef()},
		},
		Spec: configOf(of(t), buildVersion(t)),
	}
	ref := clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1alpha1.GroupVersion.Group, Kind: "EtcdadmConfig",
		Name: step.Machine}
	return made, clusterv1.Bootstrap{ConfigRef: ref}, nil
}

// buildVersion is the version that a member can be made with now: where the wanted one is refused, the newest that there is.
func buildVersion(t *observe.View) string {
	refused := t.Facts.Want.Refused.Reason
	if all := versions(t); refused != "" && refused != notFollowed && len(all) > 0 {
		return all[len(all)-1].String()
	}
	return Version(of(t))
}

// configOf is how a machine becomes a member.
func configOf(e *v1alpha1.EtcdCluster, version string) bootstrapv1alpha1.EtcdadmConfigSpec {
	spec := *e.Spec.EtcdadmConfigSpec.DeepCopy()
	spec.Version = version
	return spec
}

// Created implements group.Kind.
func (*Kind) Created(ctx context.Context, t *observe.Observer) ([]client.Object, error) {
	list := &bootstrapv1alpha1.EtcdadmConfigList{}
	if err := t.Cache.List(ctx, list, t.MadeForGroup()...); err != nil {
		return nil, fmt.Errorf("listing the EtcdadmConfigs of %s: %w", t.Object.GetName(), err)
	}
	found := make([]client.Object, len(list.Items))
	for i := range list.Items {
		found[i] = &list.Items[i]
	}
	return found, nil
}

// ReadBootstrap implements group.Kind.
func (*Kind) ReadBootstrap(ctx context.Context, t *observe.Observer, m *observe.Machine) error {
	name := m.Spec.Bootstrap.ConfigRef.Name
	if name == "" {
		return nil
	}
	config := &bootstrapv1alpha1.EtcdadmConfig{}
	err := t.GetPart(ctx, name, config)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading EtcdadmConfig %s: %w", name, err)
	}
	m.Bootstrap = config
	return nil
}

// Drift implements group.Kind.
func (*Kind) Drift(t *observe.View, m *observe.Machine) drift.Drift {
	found := drift.Drift{Reasons: wanted(t).Compare(partsOf(m))}
	config, _ := m.Bootstrap.(*bootstrapv1alpha1.EtcdadmConfig)
	if config == nil {
		return found
	}
	if has, want := versionOf(config), Version(of(t)); has != want {
		found.Reasons = append(found.Reasons, drift.Difference{Field: "spec.version", Was: has, Want: want})
	}
	was, want := config.Spec.DeepCopy(), configOf(of(t), "")
	was.Version = ""
	if !equality.Semantic.DeepEqual(*was, want) {
		found.Reasons = append(found.Reasons, drift.Difference{Field: "spec.etcdadmConfigSpec"})
	}
	if host := staticHost(t); host != "" && !isCertified(config, host) {
		found.Reasons = append(found.Reasons, drift.Difference{Field: "endpoint in the certificate",
			Was: config.Annotations[bootstrapv1alpha1.ServerNamesAnnotation], Want: host})
	}
	found.Due = drift.Due(rollout(of(t)), 0, partsOf(m), t.Facts.Now)
	return found
}

// InPlace implements group.Kind.
func (*Kind) InPlace(t *observe.View, m *observe.Machine) drift.Changes {
	return wanted(t).InPlace(t.Cluster.Name, partsOf(m))
}

// partsOf are the objects that a machine consists of.
func partsOf(m *observe.Machine) drift.Machine {
	parts := drift.Machine{Machine: m.Machine, Infrastructure: m.Infrastructure}
	if m.Bootstrap != nil {
		parts.Bootstrap = &unstructured.Unstructured{Object: map[string]any{}}
		parts.Bootstrap.SetLabels(m.Bootstrap.GetLabels())
		parts.Bootstrap.SetAnnotations(m.Bootstrap.GetAnnotations())
	}
	return parts
}

// Unadoptable implements group.Kind.
func (*Kind) Unadoptable(_ context.Context, t *observe.Observer, m *clusterv1.Machine) (string, error) {
	if !m.DeletionTimestamp.IsZero() {
		return "", nil
	}
	if ref := m.Spec.Bootstrap.ConfigRef; ref.Kind != "EtcdadmConfig" || ref.APIGroup != bootstrapv1alpha1.GroupVersion.Group {
		return "it refers to no EtcdadmConfig", nil
	}
	return "", nil
}

// Adopt implements group.Kind: the EtcdadmConfig gets the labels that say whose it is.
func (*Kind) Adopt(ctx context.Context, t *act.Writer, m *clusterv1.Machine) error {
	config := &bootstrapv1alpha1.EtcdadmConfig{}
	err := t.Cache.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Bootstrap.ConfigRef.Name}, config)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the EtcdadmConfig of Machine %s: %w", m.Name, err)
	}
	after := config.DeepCopy()
	after.Labels = t.Identified(config.Labels)
	if err := t.Merge(ctx, config, after); err != nil {
		return fmt.Errorf("adopting EtcdadmConfig %s: %w", config.Name, err)
	}
	return nil
}
