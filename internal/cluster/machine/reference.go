package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Ref is what a reference in the spec of an object is for. The user who writes the object chooses the kind, and the manager follows the
// reference with its own rights: so each field names kinds of some groups only.
type Ref struct {
	// group is the only API group of Cluster API's own that the field may name.
	group string
	// template: the kind must be one of templates, by the suffix that Cluster API's contract gives them.
	template bool
}

// The fields that name objects. Each may name a kind of its own Cluster API group, or of a group that neither Kubernetes, Cluster API nor
// Quorate has.
var (
	InfrastructureTemplateRef = Ref{group: infrastructureGroup, template: true}
	InfrastructureRef         = Ref{group: infrastructureGroup}
	BootstrapTemplateRef      = Ref{group: bootstrapGroup, template: true}
	BootstrapRef              = Ref{group: bootstrapGroup}
	ControlPlaneRef           = Ref{group: controlPlaneGroup}
	EtcdRef                   = Ref{group: etcdGroup}
)

const (
	infrastructureGroup = "infrastructure.cluster.x-k8s.io"
	bootstrapGroup      = "bootstrap.cluster.x-k8s.io"
	controlPlaneGroup   = "controlplane.cluster.x-k8s.io"
	etcdGroup           = "etcdcluster.cluster.x-k8s.io"
)

// RefusedError is the error for a reference that is not followed.
type RefusedError struct {
	GroupKind schema.GroupKind
	// Why is the reason, and what to do about it.
	Why string
}

func (r *RefusedError) Error() string {
	return fmt.Sprintf("%s cannot be referenced: %s", nameOfKind(r.GroupKind), r.Why)
}

// Refused returns the refusal that an error is or wraps; nil: it is none.
func Refused(err error) *RefusedError {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused
	}
	return nil
}

// nameOfKind names a kind with its group for people.
func nameOfKind(gk schema.GroupKind) string {
	if gk.Group == "" {
		return fmt.Sprintf("kind %q of Kubernetes' core group", gk.Kind)
	}
	return fmt.Sprintf("kind %q of group %s", gk.Kind, gk.Group)
}

// Check returns a *RefusedError if the field may not name a kind, and nil if it may.
func (f Ref) Check(gk schema.GroupKind) error {
	switch {
	case IsKubernetesGroup(gk.Group):
		return &RefusedError{gk, fmt.Sprintf("the group belongs to Kubernetes; it must be %s or a provider's own group", f.group)}
	case isClusterAPI(gk.Group) && gk.Group != f.group, isQuorate(gk.Group):
		return &RefusedError{gk, fmt.Sprintf("the group is for other objects; it must be %s or a provider's own group", f.group)}
	case f.template && (!strings.HasSuffix(gk.Kind, clusterv1.TemplateSuffix) || gk.Kind == clusterv1.TemplateSuffix):
		return &RefusedError{gk, fmt.Sprintf("the kind must be a template, whose name ends with %q", clusterv1.TemplateSuffix)}
	}
	return nil
}

// Find returns the object in a namespace that a reference names, at the version of Cluster API's contract. An error that wraps a
// *RefusedError says that the reference cannot be followed as it is; one for which apierrors.IsNotFound is true, that there is no such
// object.
func (f Ref) Find(
	ctx context.Context, c client.Reader, ref clusterv1.ContractVersionedObjectReference, namespace string,
) (*unstructured.Unstructured, error) {
	gk := ref.GroupKind()
	if err := f.Check(gk); err != nil {
		return nil, err
	}
	crd := &metav1.PartialObjectMetadata{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	err := c.Get(ctx, client.ObjectKey{Name: contract.CalculateCRDName(gk.Group, gk.Kind)}, crd)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &RefusedError{gk, "there is no CustomResourceDefinition of that kind; install its provider or correct the reference"}
	case err != nil:
		return nil, fmt.Errorf("reading the CustomResourceDefinition of %s: %w", nameOfKind(gk), err)
	case !InContract(crd):
		return nil, &RefusedError{gk, fmt.Sprintf("CustomResourceDefinition %s has no label %s/v1beta2 of Cluster API's contract", crd.Name,
			contractGroup)}
	}
	return external.GetObjectFromContractVersionedRef(ctx, c, ref, namespace)
}

// contractGroup begins the labels by which a definition says which of its versions fulfil a version of Cluster API's contract.
const contractGroup = "cluster.x-k8s.io"

// InContract reports whether a CustomResourceDefinition belongs to Cluster API's contract in a version that Cluster API v1.14 knows.
func InContract(crd client.Object) bool {
	return crd.GetLabels()[contractGroup+"/v1beta2"] != "" || crd.GetLabels()[contractGroup+"/v1beta1"] != ""
}

// IsKubernetesGroup reports whether an API group is Kubernetes' own. Such are the core group, one without a dot, or one below k8s.io or
// kubernetes.io. Groups below x-k8s.io, Cluster API's among them, are not: their kinds are custom resources.
func IsKubernetesGroup(group string) bool {
	return !strings.Contains(group, ".") || below(group, "k8s.io") || below(group, "kubernetes.io")
}

func isClusterAPI(group string) bool { return below(group, clusterv1.GroupVersion.Group) }

func isQuorate(group string) bool { return below(group, "quorate.io") }

// below reports whether a group is a domain, or a part of it.
func below(group, domain string) bool { return group == domain || strings.HasSuffix(group, "."+domain) }
