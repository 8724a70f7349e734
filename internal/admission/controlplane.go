package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-controlplane-cluster-x-k8s-io-v1alpha1-controlplane,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=controlplane.cluster.x-k8s.io,resources=controlplanes,versions=v1alpha1,name=validation.controlplane.controlplane.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// ControlPlane validates what the schema of ControlPlanes cannot express. On an update it looks at what has changed: what is
// stored already is not refused again.
type ControlPlane struct {
	// Reader finds the etcd that a control plane refers to; nil: whose it is is left to the controller.
	Reader client.Reader
}

var _ admission.Validator[*controlplanev1alpha1.ControlPlane] = &ControlPlane{}

// ValidateCreate refuses what could not be carried out.
func (v *ControlPlane) ValidateCreate(ctx context.Context, cp *controlplanev1alpha1.ControlPlane) (admission.Warnings, error) {
	if err := v.validate(&controlplanev1alpha1.ControlPlaneSpec{}, cp, nil); err != nil {
		return nil, err
	}
	return nil, checkOwnEtcd(ctx, v.Reader, cp, cp.Spec.ManagedExternalEtcdRef)
}

// ValidateUpdate refuses changes that could not be carried out.
func (v *ControlPlane) ValidateUpdate(_ context.Context, before, after *controlplanev1alpha1.ControlPlane) (admission.Warnings, error) {
	return nil, v.validate(&before.Spec, after, checkNeeded(before, after, after.Spec.InPlace.Policy))
}

// ValidateDelete refuses nothing.
func (v *ControlPlane) ValidateDelete(context.Context, *controlplanev1alpha1.ControlPlane) (admission.Warnings, error) {
	return nil, nil
}

// validate refuses a control plane with what is wrong already, or with fields of its spec that could not be carried out.
func (v *ControlPlane) validate(
	before *controlplanev1alpha1.ControlPlaneSpec, cp *controlplanev1alpha1.ControlPlane, wrong field.ErrorList,
) error {
	// The label is missing until the control plane has a cluster.
	of := names{controlPlane: cp.Name, cluster: cmp.Or(cp.Labels[clusterv1.ClusterNameLabel], "cluster")}
	wrong = append(wrong, validateSpec(before, &cp.Spec, of, field.NewPath("spec"))...)
	if len(wrong) == 0 {
		return nil
	}
	return apierrors.NewInvalid(controlplanev1alpha1.GroupVersion.WithKind("ControlPlane").GroupKind(), cp.Name, wrong)
}

// names are what the names of machines are made from.
type names struct{ controlPlane, cluster string }

// validateSpec returns what is wrong with the fields of a spec that differ from those before.
func validateSpec(before, after *controlplanev1alpha1.ControlPlaneSpec, of names, spec *field.Path) field.ErrorList {
	var all field.ErrorList
	if before.Version != after.Version && after.Version != "" {
		if err := machine.CheckVersion(after.Version); err != nil {
			all = append(all, field.Invalid(spec.Child("version"), after.Version, err.Error()))
		}
	}
	if !equality.Semantic.DeepEqual(before.Selector, after.Selector) {
		all = append(all, metav1validation.ValidateLabelSelector(after.Selector, metav1validation.LabelSelectorValidationOptions{},
			spec.Child("selector"))...)
	}
	if !equality.Semantic.DeepEqual(before.ProviderSpec, after.ProviderSpec) {
		all = append(all, validateInline(after.ProviderSpec.Value, spec.Child("providerSpec", "value"))...)
	}
	if naming := after.MachineNaming.Template; before.MachineNaming.Template != naming {
		if _, err := machine.NameFormatOf(machine.ControlPlaneVariable, naming, of.controlPlane, of.cluster); err != nil {
			all = append(all, field.Invalid(spec.Child("machineNaming", "template"), naming, err.Error()))
		}
	}
	if ref := after.ManagedExternalEtcdRef; before.ManagedExternalEtcdRef != ref {
		all = append(all, checkManagedEtcd(ref, spec)...)
	}
	why := ""
	if after.ManagedExternalEtcdRef.IsDefined() {
		why = etcdElsewhere
	} else if m := after.Etcd.Management; m != "" && m != controlplanev1alpha1.EtcdManagementMembers {
		why = etcdNotOurs
	}
	all = append(all, checkBackup(before.Backup, after.Backup, why, spec)...)
	all = append(all, checkWindows(before.Approval, after.Approval, spec)...)
	return append(all, validateMachineTemplate(before, after, spec.Child("machineTemplate"))...)
}

// validateMachineTemplate returns what is wrong with the fields of a spec's template for machines that differ from those before.
func validateMachineTemplate(before, after *controlplanev1alpha1.ControlPlaneSpec, template *field.Path) field.ErrorList {
	var all field.ErrorList
	was, is := before.MachineTemplate, after.MachineTemplate
	if !equality.Semantic.DeepEqual(was.ObjectMeta, is.ObjectMeta) {
		all = append(all, is.ObjectMeta.Validate(template.Child("metadata"))...)
	}
	if ref := is.Spec.InfrastructureRef; was.Spec.InfrastructureRef != ref {
		all = append(all, checkRef(machine.InfrastructureTemplateRef, ref, template.Child("spec", "infrastructureRef"))...)
	}
	if ref := is.Spec.Bootstrap.ConfigRef; was.Spec.Bootstrap.ConfigRef != ref {
		all = append(all, checkRef(machine.BootstrapTemplateRef, ref, template.Child("spec", "bootstrap", "configRef"))...)
	}
	if !equality.Semantic.DeepEqual(was.Spec.Taints, is.Spec.Taints) {
		all = append(all, validateTaints(is.Spec.Taints, template.Child("spec", "taints"))...)
	}
	return all
}

// validateInline returns what an infrastructure machine given inline must not have, as several are made from it.
func validateInline(value *runtime.RawExtension, path *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	var object struct {
		metav1.TypeMeta `json:",inline"`

		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     struct {
			ProviderID string `json:"providerID"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(value.Raw, &object); err != nil {
		return field.ErrorList{field.Invalid(path, string(value.Raw), fmt.Sprintf("an infrastructure machine is accepted: %v", err))}
	}
	meta := clusterv1.ObjectMeta{Labels: object.Metadata.Labels, Annotations: object.Metadata.Annotations}
	all := append(checkKind(machine.InfrastructureRef, object.GroupVersionKind().GroupKind(), path.Child("kind")),
		meta.Validate(path.Child("metadata"))...)
	rest := object.Metadata
	// The schema refuses names.
	rest.Labels, rest.Annotations, rest.Name, rest.GenerateName = nil, nil, "", ""
	if !equality.Semantic.DeepEqual(rest, metav1.ObjectMeta{}) {
		all = append(all, field.Invalid(path.Child("metadata"), rest, "only labels and annotations are accepted"))
	}
	if id := object.Spec.ProviderID; id != "" {
		all = append(all, field.Invalid(path.Child("spec", "providerID"), id, "none is accepted, as each machine gets one of its own"))
	}
	return all
}

// validateTaints returns the taints that Cluster API would refuse on Machines.
func validateTaints(taints []clusterv1.MachineTaint, path *field.Path) field.ErrorList {
	if len(taints) > 0 && !feature.Gates.Enabled(feature.MachineTaintPropagation) {
		return field.ErrorList{field.Forbidden(path, "taints are accepted only with Cluster API's feature gate MachineTaintPropagation")}
	}
	var all field.ErrorList
	for i, taint := range taints {
		key := path.Index(i).Child("key")
		for _, wrong := range content.IsLabelKey(taint.Key) {
			all = append(all, field.Invalid(key, taint.Key, wrong))
		}
		if reserved(taint.Key) {
			all = append(all, field.Invalid(key, taint.Key, "Cluster API, the kubelet or a cloud's controllers set this taint; others, and "+
				"node.kubernetes.io/out-of-service, are accepted"))
		}
	}
	return all
}

// reserved reports whether Cluster API leaves a taint to others or to itself; see its package internal/util/taints.
func reserved(key string) bool {
	switch key {
	case clusterv1.NodeUninitializedTaint.Key, clusterv1.NodeOutdatedRevisionTaint.Key, "node-role.kubernetes.io/master":
		return true
	case "node.kubernetes.io/out-of-service":
		return false
	}
	return strings.HasPrefix(key, "node.kubernetes.io/") || strings.HasPrefix(key, "node.cloudprovider.kubernetes.io/")
}
