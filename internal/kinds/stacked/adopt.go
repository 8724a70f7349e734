package stacked

import (
	"context"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/group/act"
	"github.com/quorate/quorate/internal/group/observe"
)

// Unadoptable implements group.Kind.
func (*Kind) Unadoptable(ctx context.Context, t *observe.Observer, m *clusterv1.Machine) (string, error) {
	if !m.DeletionTimestamp.IsZero() {
		return "", nil // it is released in good order, whatever it was made of
	}
	config := m.Spec.Bootstrap.ConfigRef
	if against := noKubeadmConfig(config); against != "" {
		return against, nil
	}
	if against := machine.TooFar(t.Spec.Version, m.Spec.Version); against != "" {
		return against, nil
	}
	made := &bootstrapv1.KubeadmConfig{}
	err := t.Cache.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: config.Name}, made)
	switch {
	case apierrors.IsNotFound(err):
		return "its KubeadmConfig " + config.Name + " does not exist", nil
	case err != nil:
		return "", fmt.Errorf("reading KubeadmConfig %s: %w", config.Name, err)
	}
	if join := made.Spec.JoinConfiguration; join.Discovery.BootstrapToken.IsDefined() && join.ControlPlane == nil {
		return "it joined as a worker, and a machine keeps its role: a new one is made for the control plane", nil
	}
	return "", nil
}

// noKubeadmConfig says how a Machine refers to something else than a KubeadmConfig; empty: it refers to one.
func noKubeadmConfig(config clusterv1.ContractVersionedObjectReference) string {
	switch {
	case !config.IsDefined():
		return "it refers to no KubeadmConfig"
	case config.Kind != "KubeadmConfig" || config.APIGroup != bootstrapv1.GroupVersion.Group:
		return fmt.Sprintf("its bootstrap configuration is %s %s of %s, no KubeadmConfig of %s", config.Kind, config.Name, config.APIGroup,
			bootstrapv1.GroupVersion.Group)
	}
	return ""
}

// Adopt implements group.Kind: the cluster's secrets and the KubeadmConfig become the control plane's own.
func (*Kind) Adopt(ctx context.Context, t *act.Writer, m *clusterv1.Machine) error {
	config := &bootstrapv1.KubeadmConfig{}
	err := t.Cache.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Bootstrap.ConfigRef.Name}, config)
	if apierrors.IsNotFound(err) && !m.DeletionTimestamp.IsZero() {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the KubeadmConfig of Machine %s: %w", m.Name, err)
	}
	if err := t.TakeOver(ctx, config); err != nil {
		return err
	}
	// The Machine stays the controller of its KubeadmConfig; only the labels say whose both are.
	after := config.DeepCopy()
	after.Labels = t.Identified(config.Labels)
	if maps.Equal(after.Labels, config.Labels) {
		return nil
	}
	if err := t.Merge(ctx, config, after); err != nil {
		return fmt.Errorf("adopting KubeadmConfig %s: %w", config.Name, err)
	}
	return nil
}
