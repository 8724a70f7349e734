// Package admission says which writes of Quorate's kinds are refused for reasons that a schema cannot express. It knows
// upstream's checks and what Quorate adds to the kinds, and which webhook asks which; it does not know where webhooks are served.
package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	upstream "sigs.k8s.io/cluster-api/controlplane/kubeadm/webhooks/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/conversion"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-controlplane-cluster-x-k8s-io-v1beta2-kubeadmcontrolplanetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=kubeadmcontrolplanetemplates,versions=v1beta2,name=validation.kubeadmcontrolplanetemplate.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// KubeadmControlPlaneTemplate validates KubeadmControlPlaneTemplates as upstream does. What Quorate adds to them is as immutable as the
// rest.
//
// Upstream's checks change what they look at: they are given copies.
type KubeadmControlPlaneTemplate struct {
	upstream upstream.KubeadmControlPlaneTemplate
}

var _ admission.Validator[*controlplanev1.KubeadmControlPlaneTemplate] = &KubeadmControlPlaneTemplate{}

// ValidateCreate refuses what upstream refuses, and names of machines that Quorate cannot make. Upstream's feature gate
// ClusterTopology must be on.
func (v *KubeadmControlPlaneTemplate) ValidateCreate(
	ctx context.Context, t *controlplanev1.KubeadmControlPlaneTemplate,
) (admission.Warnings, error) {
	spec := field.NewPath("spec", "template", "spec")
	config := &t.Spec.Template.Spec.KubeadmConfigSpec
	stacked := !config.ClusterConfiguration.Etcd.External.IsDefined() && !t.Spec.Template.Spec.ManagedExternalEtcdRef.IsDefined()
	wrong := checkAdvertised(config, stacked, spec.Child("kubeadmConfigSpec"))
	wrong = append(wrong, checkNaming(t.Spec.Template.Spec.MachineNaming.Template, "control-plane", "", spec)...)
	wrong = append(wrong, checkWindows(controlplanev1.ApprovalSpec{}, t.Spec.Template.Spec.Approval, spec)...)
	wrong = append(wrong, checkBackup(nil, t.Spec.Template.Spec.Backup, elsewhere(!stacked), spec)...)
	if wrong = append(wrong, checkManagedEtcd(t.Spec.Template.Spec.ManagedExternalEtcdRef, spec)...); len(wrong) > 0 {
		return nil, invalidTemplate(t, wrong)
	}
	return v.upstream.ValidateCreate(ctx, conversion.PlainTemplate(t))
}

// ValidateUpdate refuses changes of spec.template.spec: a ClusterClass is given another template instead.
func (v *KubeadmControlPlaneTemplate) ValidateUpdate(
	ctx context.Context, before, after *controlplanev1.KubeadmControlPlaneTemplate,
) (admission.Warnings, error) {
	warnings, err := v.upstream.ValidateUpdate(ctx, conversion.PlainTemplate(before), conversion.PlainTemplate(after))
	if err != nil {
		return warnings, err
	}
	old, now := before.Spec.Template.Spec.Additions, after.Spec.Template.Spec.Additions
	if equality.Semantic.DeepEqual(old, now) {
		return warnings, nil
	}
	return warnings, invalidTemplate(after, field.ErrorList{
		field.Invalid(field.NewPath("spec", "template", "spec"), now,
			"it is immutable: create another template, and refer to that in the ClusterClass"),
	})
}

func invalidTemplate(t *controlplanev1.KubeadmControlPlaneTemplate, why field.ErrorList) error {
	return apierrors.NewInvalid(controlplanev1.GroupVersion.WithKind("KubeadmControlPlaneTemplate").GroupKind(), t.Name, why)
}

// ValidateDelete refuses nothing.
func (v *KubeadmControlPlaneTemplate) ValidateDelete(
	ctx context.Context, t *controlplanev1.KubeadmControlPlaneTemplate,
) (admission.Warnings, error) {
	return v.upstream.ValidateDelete(ctx, conversion.PlainTemplate(t))
}
