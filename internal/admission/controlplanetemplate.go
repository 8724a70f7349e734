package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/topology"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-controlplane-cluster-x-k8s-io-v1alpha1-controlplanetemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=controlplanetemplates,versions=v1alpha1,name=validation.controlplanetemplate.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// ControlPlaneTemplate validates what the schema of ControlPlaneTemplates cannot express, their immutability first of all.
type ControlPlaneTemplate struct{}

var _ admission.Validator[*controlplanev1alpha1.ControlPlaneTemplate] = &ControlPlaneTemplate{}

// ValidateCreate refuses what a control plane made from the template would be refused for.
func (v *ControlPlaneTemplate) ValidateCreate(_ context.Context, t *controlplanev1alpha1.ControlPlaneTemplate) (admission.Warnings, error) {
	template := field.NewPath("spec", "template")
	// The Cluster, and with it the names, are not known yet.
	all := validateSpec(&controlplanev1alpha1.ControlPlaneSpec{}, controlPlaneSpec(t),
		names{controlPlane: "control-plane", cluster: "cluster"}, template.Child("spec"))
	all = append(all, t.Spec.Template.ObjectMeta.Validate(template.Child("metadata"))...)
	return nil, invalidControlPlaneTemplate(t, all)
}

// ValidateUpdate refuses changes of spec.template.spec: a ClusterClass is given another template instead. A dry run of Cluster
// API's topology controller may change it.
func (v *ControlPlaneTemplate) ValidateUpdate(
	ctx context.Context, before, after *controlplanev1alpha1.ControlPlaneTemplate,
) (admission.Warnings, error) {
	var all field.ErrorList
	template := field.NewPath("spec", "template")
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, apierrors.NewBadRequest("reading the admission request: " + err.Error())
	}
	was, is := before.Spec.Template, after.Spec.Template
	if !equality.Semantic.DeepEqual(was.Spec, is.Spec) && !topology.IsDryRunRequest(request, after) {
		all = append(all, field.Forbidden(template.Child("spec"),
			"it is immutable: create another template, and refer to that in the ClusterClass"))
	}
	if !equality.Semantic.DeepEqual(was.ObjectMeta, is.ObjectMeta) {
		all = append(all, is.ObjectMeta.Validate(template.Child("metadata"))...)
	}
	return nil, invalidControlPlaneTemplate(after, all)
}

// ValidateDelete refuses nothing.
func (v *ControlPlaneTemplate) ValidateDelete(context.Context, *controlplanev1alpha1.ControlPlaneTemplate) (admission.Warnings, error) {
	return nil, nil
}

// controlPlaneSpec returns the spec of a control plane made from a template, as far as the template says.
func controlPlaneSpec(t *controlplanev1alpha1.ControlPlaneTemplate) *controlplanev1alpha1.ControlPlaneSpec {
	from := t.Spec.Template.Spec
	return &controlplanev1alpha1.ControlPlaneSpec{
		CommonSpec: from.CommonSpec,
		MachineTemplate: controlplanev1alpha1.ControlPlaneMachineTemplate{
			ObjectMeta: from.MachineTemplate.ObjectMeta,
			Spec: controlplanev1alpha1.ControlPlaneMachineTemplateSpec{
				Bootstrap: from.MachineTemplate.Spec.Bootstrap,
				Deletion:  from.MachineTemplate.Spec.Deletion,
				Taints:    from.MachineTemplate.Spec.Taints,
			},
		},
	}
}

// invalidControlPlaneTemplate returns the refusal of a template; nil: nothing is wrong with it.
func invalidControlPlaneTemplate(t *controlplanev1alpha1.ControlPlaneTemplate, wrong field.ErrorList) error {
	if len(wrong) == 0 {
		return nil
	}
	return apierrors.NewInvalid(controlplanev1alpha1.GroupVersion.WithKind("ControlPlaneTemplate").GroupKind(), t.Name, wrong)
}
