package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/internal/kinds/etcdadm"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-bootstrap-cluster-x-k8s-io-v1alpha1-etcdadmconfig,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=bootstrap.cluster.x-k8s.io,resources=etcdadmconfigs,versions=v1alpha1,name=validation.etcdadmconfig.bootstrap.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-bootstrap-cluster-x-k8s-io-v1alpha1-etcdadmconfigtemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=bootstrap.cluster.x-k8s.io,resources=etcdadmconfigtemplates,versions=v1alpha1,name=validation.etcdadmconfigtemplate.bootstrap.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// EtcdadmConfig validates what the schema of EtcdadmConfigs cannot express. What is stored already is not refused again.
type EtcdadmConfig struct{}

var _ admission.Validator[*bootstrapv1alpha1.EtcdadmConfig] = &EtcdadmConfig{}

// ValidateCreate refuses what could not be carried out.
func (v *EtcdadmConfig) ValidateCreate(_ context.Context, c *bootstrapv1alpha1.EtcdadmConfig) (admission.Warnings, error) {
	wrong := etcdadm.Validate(&c.Spec, field.NewPath("spec"))
	return nil, invalidEtcdadm("EtcdadmConfig", c.Name, append(wrong, etcdadm.ValidateKept(c)...))
}

// ValidateUpdate refuses changes that could not be carried out.
func (v *EtcdadmConfig) ValidateUpdate(_ context.Context, before, after *bootstrapv1alpha1.EtcdadmConfig) (admission.Warnings, error) {
	wrong := etcdadm.ValidateKeptUpdate(before, after)
	if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		wrong = append(wrong, etcdadm.Validate(&after.Spec, field.NewPath("spec"))...)
	}
	return nil, invalidEtcdadm("EtcdadmConfig", after.Name, wrong)
}

// ValidateDelete refuses nothing.
func (v *EtcdadmConfig) ValidateDelete(context.Context, *bootstrapv1alpha1.EtcdadmConfig) (admission.Warnings, error) {
	return nil, nil
}

// EtcdadmConfigTemplate validates what the schema of EtcdadmConfigTemplates cannot express.
type EtcdadmConfigTemplate struct{}

var _ admission.Validator[*bootstrapv1alpha1.EtcdadmConfigTemplate] = &EtcdadmConfigTemplate{}

// ValidateCreate refuses what a configuration made from the template would be refused for.
func (v *EtcdadmConfigTemplate) ValidateCreate(_ context.Context, t *bootstrapv1alpha1.EtcdadmConfigTemplate) (admission.Warnings, error) {
	at := field.NewPath("spec", "template")
	all := etcdadm.Validate(&t.Spec.Template.Spec, at.Child("spec"))
	all = append(all, t.Spec.Template.ObjectMeta.Validate(at.Child("metadata"))...)
	return nil, invalidEtcdadm("EtcdadmConfigTemplate", t.Name, all)
}

// ValidateUpdate refuses changes that a configuration would be refused for.
func (v *EtcdadmConfigTemplate) ValidateUpdate(
	ctx context.Context, before, after *bootstrapv1alpha1.EtcdadmConfigTemplate,
) (admission.Warnings, error) {
	if equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return nil, nil
	}
	return v.ValidateCreate(ctx, after)
}

// ValidateDelete refuses nothing.
func (v *EtcdadmConfigTemplate) ValidateDelete(context.Context, *bootstrapv1alpha1.EtcdadmConfigTemplate) (admission.Warnings, error) {
	return nil, nil
}

// invalidEtcdadm returns the refusal of a configuration or a template; nil: nothing is wrong with it.
func invalidEtcdadm(kind, name string, wrong field.ErrorList) error {
	if len(wrong) == 0 {
		return nil
	}
	return apierrors.NewInvalid(bootstrapv1alpha1.GroupVersion.WithKind(kind).GroupKind(), name, wrong)
}
