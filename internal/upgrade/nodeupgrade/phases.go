package nodeupgrade

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// +kubebuilder:rbac:groups=controlplane.cluster.x-k8s.io,resources=controlplanes,verbs=get

// phases finds out which phases of kubeadm are left to others, as the control plane says by annotations and by what kubeadm init leaves
// out. Whatever created the NodeUpgrade, kubeadm must not do again what others have done since. made is what the machine was made from.
func (c *Controller) phases(ctx context.Context, s *scope, w *look, made bootstrapv1.KubeadmConfigSpec) (upgradepod.Obstacle, error) {
	w.env.SkipPhases = nil
	if s.upgrade.Spec.NodeType != upgradev1.ControlPlane {
		return upgradepod.Obstacle{}, nil
	}
	skipped := made.InitConfiguration.SkipPhases
	owner, err := c.controlPlane(ctx, s.machine)
	if err != nil {
		return upgradepod.Obstacle{}, err
	}
	if kcp, ok := owner.(*controlplanev1.KubeadmControlPlane); ok {
		skipped = kcp.Spec.KubeadmConfigSpec.InitConfiguration.SkipPhases
	}
	var annotations map[string]string
	if owner != nil {
		annotations = owner.GetAnnotations()
	}
	_, proxy := annotations[upstream.SkipKubeProxyAnnotation]
	_, dns := annotations[upstream.SkipCoreDNSAnnotation]
	w.env.SkipPhases = steps.LeftToOthers(skipped, proxy, dns)
	return upgradepod.Obstacle{}, nil
}

// controlPlane reads the control plane that controls a Machine: a KubeadmControlPlane, of whichever controller, or the metadata of a
// ControlPlane. Nil: it is another kind, or none does.
func (c *Controller) controlPlane(ctx context.Context, m *clusterv1.Machine) (client.Object, error) {
	ref := metav1.GetControllerOf(m)
	if ref == nil || schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).Group != controlplanev1.GroupVersion.Group {
		return nil, nil
	}
	var owner client.Object
	switch ref.Kind {
	case "KubeadmControlPlane":
		owner = &controlplanev1.KubeadmControlPlane{}
	case "ControlPlane":
		// Its bootstrap template is what the machine was made from; of itself only annotations count.
		only := &metav1.PartialObjectMetadata{}
		only.SetGroupVersionKind(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
		owner = only
	default:
		return nil, nil
	}
	if err := c.APIReader.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, owner); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	return owner, nil
}
