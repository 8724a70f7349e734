package nodeupgrade

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=kubeadmconfigs,verbs=get

// kubeadm finds out what of kubeadm the node has that is not its default: where its patches are, as the KubeadmConfig says that its machine
// was made from, and which phases are left to others. Manifests that are written without patches would lose what a user wants of them.
func (c *Controller) kubeadm(ctx context.Context, s *scope, w *look) (upgradepod.Obstacle, error) {
	ref := s.machine.Spec.Bootstrap.ConfigRef
	config := &bootstrapv1.KubeadmConfig{}
	if ref.APIGroup != bootstrapv1.GroupVersion.Group || ref.Kind != "KubeadmConfig" {
		return c.phases(ctx, s, w, config.Spec)
	}
	err := c.APIReader.Get(ctx, client.ObjectKey{Namespace: s.machine.Namespace, Name: ref.Name}, config)
	if apierrors.IsNotFound(err) {
		message := fmt.Sprintf("there is no KubeadmConfig %s, which Machine %s was made from: it is not known which patches of kubeadm's its "+
			"node has", ref.Name, s.machine.Name)
		return upgradepod.Obstacle{Reason: upgradev1.WaitingForMachine, Message: message}, nil
	}
	if err != nil {
		return upgradepod.Obstacle{}, fmt.Errorf("reading KubeadmConfig %s: %w", ref.Name, err)
	}
	w.env.Patches = drift.Patches(config.Spec)
	return c.phases(ctx, s, w, config.Spec)
}
