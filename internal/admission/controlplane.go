package admission

import (
	"context"

	upstream "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/conversion"
)

// +kubebuilder:webhook:verbs=create;update,path=/mutate-controlplane-cluster-x-k8s-io-v1beta2-kubeadmcontrolplane,mutating=true,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,versions=v1beta2,name=default.kubeadmcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-controlplane-cluster-x-k8s-io-v1beta2-kubeadmcontrolplane,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanes,versions=v1beta2,name=validation.kubeadmcontrolplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// ControlPlane defaults and validates KubeadmControlPlanes as upstream does: a controller of upstream's takes over what is
// there, and counts on its defaults. What Quorate adds needs no more than its schema.
type ControlPlane struct {
	upstream upstream.KubeadmControlPlane
}

var (
	_ admission.Defaulter[*controlplanev1.KubeadmControlPlane] = &ControlPlane{}
	_ admission.Validator[*controlplanev1.KubeadmControlPlane] = &ControlPlane{}
)

// Default fills in what upstream fills in.
func (v *ControlPlane) Default(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) error {
	theirs := conversion.PlainControlPlane(kcp)
	if err := v.upstream.Default(ctx, theirs); err != nil {
		return err
	}
	kcp.Spec.KubeadmControlPlaneSpec = theirs.Spec
	return nil
}

// ValidateCreate refuses what upstream refuses.
func (v *ControlPlane) ValidateCreate(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) (admission.Warnings, error) {
	return v.upstream.ValidateCreate(ctx, conversion.PlainControlPlane(kcp))
}

// ValidateUpdate refuses what upstream refuses.
func (v *ControlPlane) ValidateUpdate(ctx context.Context, before, after *controlplanev1.KubeadmControlPlane) (admission.Warnings, error) {
	return v.upstream.ValidateUpdate(ctx, conversion.PlainControlPlane(before), conversion.PlainControlPlane(after))
}

// ValidateDelete refuses nothing.
func (v *ControlPlane) ValidateDelete(ctx context.Context, kcp *controlplanev1.KubeadmControlPlane) (admission.Warnings, error) {
	return v.upstream.ValidateDelete(ctx, conversion.PlainControlPlane(kcp))
}
