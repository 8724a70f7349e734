package admission

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/topology"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/kinds/etcdadm"
)

// +kubebuilder:webhook:verbs=create;update,path=/validate-etcdcluster-cluster-x-k8s-io-v1alpha1-etcdcluster,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=etcdcluster.cluster.x-k8s.io,resources=etcdclusters,versions=v1alpha1,name=validation.etcdcluster.etcdcluster.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1
// +kubebuilder:webhook:verbs=create;update,path=/validate-etcdcluster-cluster-x-k8s-io-v1alpha1-etcdclustertemplate,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=etcdcluster.cluster.x-k8s.io,resources=etcdclustertemplates,versions=v1alpha1,name=validation.etcdclustertemplate.etcdcluster.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// EtcdCluster validates what the schema of EtcdClusters cannot express. What is stored already is not refused again.
type EtcdCluster struct {
	// Reader finds the EtcdClusters that there are; nil: whether there is another one for the Cluster is left to the controller.
	Reader client.Reader
}

var _ admission.Validator[*etcdclusterv1alpha1.EtcdCluster] = &EtcdCluster{}

// ValidateCreate refuses what could not be carried out, and a second EtcdCluster for a Cluster.
func (v *EtcdCluster) ValidateCreate(ctx context.Context, e *etcdclusterv1alpha1.EtcdCluster) (admission.Warnings, error) {
	if _, err := v.validate(e); err != nil {
		return nil, err
	}
	return nil, v.checkOnly(ctx, e)
}

// checkOnly refuses an EtcdCluster whose Cluster has another one.
func (v *EtcdCluster) checkOnly(ctx context.Context, e *etcdclusterv1alpha1.EtcdCluster) error {
	cluster := etcdadm.ClusterOf(e)
	if v.Reader == nil || cluster == "" {
		return nil
	}
	var all etcdclusterv1alpha1.EtcdClusterList
	err := v.Reader.List(ctx, &all, client.InNamespace(e.Namespace))
	if apierrors.IsForbidden(err) {
		return nil // a manager of another namespace: whether there is another one is left to the controller
	}
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("listing the EtcdClusters of namespace %s: %w", e.Namespace, err))
	}
	keeper := etcdadm.Keeper(all.Items, cluster)
	if keeper == nil || keeper.Name == e.Name {
		return nil
	}
	return invalidEtcd("EtcdCluster", e.Name,
		field.ErrorList{field.Forbidden(field.NewPath("metadata", "labels").Key(clusterv1.ClusterNameLabel),
			fmt.Sprintf("EtcdCluster %s keeps the etcd of Cluster %s; a Cluster can have only one", keeper.Name, cluster))})
}

func (*EtcdCluster) validate(e *etcdclusterv1alpha1.EtcdCluster) (admission.Warnings, error) {
	spec := field.NewPath("spec")
	all := validateEtcd(&e.Spec.CommonSpec, spec)
	all = append(all, validateEndpoint(e.Spec.Endpoint, spec.Child("endpoint"))...)
	// It is the value of a label, and the beginning of host names.
	for _, wrong := range validation.IsDNS1123Label(e.Name) {
		all = append(all, field.Invalid(field.NewPath("metadata", "name"), e.Name, wrong))
	}
	return nil, invalidEtcd("EtcdCluster", e.Name, all)
}

// ValidateUpdate refuses changes that could not be carried out.
func (v *EtcdCluster) ValidateUpdate(ctx context.Context, before, after *etcdclusterv1alpha1.EtcdCluster) (admission.Warnings, error) {
	if etcdadm.ClusterOf(before) != etcdadm.ClusterOf(after) {
		if err := v.checkOnly(ctx, after); err != nil {
			return nil, err
		}
	}
	if equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return nil, nil
	}
	return v.validate(after)
}

// ValidateDelete refuses nothing.
func (v *EtcdCluster) ValidateDelete(context.Context, *etcdclusterv1alpha1.EtcdCluster) (admission.Warnings, error) {
	return nil, nil
}

// EtcdClusterTemplate validates what the schema of EtcdClusterTemplates cannot express, their immutability first of all.
type EtcdClusterTemplate struct{}

var _ admission.Validator[*etcdclusterv1alpha1.EtcdClusterTemplate] = &EtcdClusterTemplate{}

// ValidateCreate refuses what an etcd cluster made from the template would be refused for.
func (v *EtcdClusterTemplate) ValidateCreate(_ context.Context, t *etcdclusterv1alpha1.EtcdClusterTemplate) (admission.Warnings, error) {
	at := field.NewPath("spec", "template")
	all := validateEtcd(&t.Spec.Template.Spec, at.Child("spec"))
	return nil, invalidEtcd("EtcdClusterTemplate", t.Name, append(all, t.Spec.Template.ObjectMeta.Validate(at.Child("metadata"))...))
}

// ValidateUpdate refuses changes of spec.template.spec, but those of a dry run of Cluster API's topology controller.
func (v *EtcdClusterTemplate) ValidateUpdate(
	ctx context.Context, before, after *etcdclusterv1alpha1.EtcdClusterTemplate,
) (admission.Warnings, error) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, apierrors.NewBadRequest("reading the admission request: " + err.Error())
	}
	var all field.ErrorList
	at := field.NewPath("spec", "template")
	was, is := before.Spec.Template, after.Spec.Template
	if !equality.Semantic.DeepEqual(was.Spec, is.Spec) && !topology.IsDryRunRequest(request, after) {
		all = append(all, field.Forbidden(at.Child("spec"), "it is immutable: create another template, and refer to that"))
	}
	if !equality.Semantic.DeepEqual(was.ObjectMeta, is.ObjectMeta) {
		all = append(all, is.ObjectMeta.Validate(at.Child("metadata"))...)
	}
	return nil, invalidEtcd("EtcdClusterTemplate", after.Name, all)
}

// ValidateDelete refuses nothing.
func (v *EtcdClusterTemplate) ValidateDelete(context.Context, *etcdclusterv1alpha1.EtcdClusterTemplate) (admission.Warnings, error) {
	return nil, nil
}

// validateEtcd returns what is wrong with a spec.
func validateEtcd(spec *etcdclusterv1alpha1.CommonSpec, at *field.Path) field.ErrorList {
	config := at.Child("etcdadmConfigSpec")
	all := etcdadm.Validate(&spec.EtcdadmConfigSpec, config)
	all = append(all, checkRef(machine.InfrastructureTemplateRef, spec.InfrastructureTemplate, at.Child("infrastructureTemplate"))...)
	all = append(all, checkBackup(nil, spec.Backup, "", at)...)
	all = append(all, checkWindows(controlplanev1.ApprovalSpec{}, spec.Approval, at)...)
	all = append(all, checkNoInPlace(spec.Backup, at)...)
	if spec.Version != "" {
		if wrong := etcdadm.WrongVersion(spec.Version); wrong != "" {
			all = append(all, field.Invalid(at.Child("version"), spec.Version, wrong))
		}
	}
	if _, ok := spec.EtcdadmConfigSpec.EtcdadmArgs["version"]; ok {
		all = append(all, field.Forbidden(config.Child("etcdadmArgs").Key("version"), "spec.version says it for all machines"))
	}
	return append(all, spec.MachineTemplate.ObjectMeta.Validate(at.Child("machineTemplate", "metadata"))...)
}

// validateEndpoint returns why an endpoint cannot be reached or be in a certificate.
func validateEndpoint(endpoint string, at *field.Path) field.ErrorList {
	if endpoint == "" {
		return nil
	}
	name := endpoint
	if host, port, err := net.SplitHostPort(endpoint); err == nil {
		name = host
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return field.ErrorList{field.Invalid(at, endpoint, "a port is a number from 1 to 65535")}
		}
	}
	if wrong := etcdadm.WrongSAN(name); wrong != "" {
		return field.ErrorList{field.Invalid(at, endpoint, wrong+": a name or an address, with a port or without, is accepted")}
	}
	return nil
}

// invalidEtcd returns the refusal of an etcd cluster or a template; nil: nothing is wrong with it.
func invalidEtcd(kind, name string, wrong field.ErrorList) error {
	if len(wrong) == 0 {
		return nil
	}
	return apierrors.NewInvalid(etcdclusterv1alpha1.GroupVersion.WithKind(kind).GroupKind(), name, wrong)
}
