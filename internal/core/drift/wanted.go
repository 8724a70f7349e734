package drift

import (
	"cmp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// Wanted is what a group of machines wants each of its machines to be, whatever
// the kind of the group. Neither Compare nor InPlace changes what it refers to.
type Wanted struct {
	// Name is the name of the group's object.
	Name string
	// Etcd: the machines are members of an etcd cluster, and no control plane's.
	Etcd bool
	// WatchFilter is the value of the group's label cluster.x-k8s.io/watch-filter.
	// Nil: it has no such label.
	WatchFilter *string
	// Metadata are the template's labels and annotations, for each object of a machine.
	Metadata clusterv1.ObjectMeta
	// Deletion are the timeouts of a Machine's deletion.
	Deletion clusterv1.MachineDeletionSpec
	// Taints are those of a Machine.
	Taints []clusterv1.MachineTaint
	// ReadinessGates are the user's.
	ReadinessGates []clusterv1.MachineReadinessGate
	// RequiredGates are the condition types that the kind itself requires. They
	// come before the user's, and win over the user's gate of the same type.
	RequiredGates []string
	// RetiredGates are condition types of the kind that are removed from a Machine
	// if they are neither required nor the user's.
	RetiredGates []string

	// Version is the Kubernetes version. Empty: it is not compared.
	Version string
	// Infrastructure is the template of the infrastructure machines. Zero: there
	// is none. It is not compared if Inline is set.
	Infrastructure clusterv1.ContractVersionedObjectReference
	// Inline is an infrastructure machine given inline. Nil: there is none. Its
	// metadata and status are not compared, and neither is the version of its API:
	// Machine.Infrastructure is to be read in the same one.
	Inline *unstructured.Unstructured
	// Bootstrap is the template of the bootstrap objects. Zero: there is none.
	Bootstrap clusterv1.ContractVersionedObjectReference
	// DataSecret is the name of the secret with the bootstrap data. Empty: there
	// is none. It is not compared if Bootstrap is set.
	DataSecret string

	// Fields are the paths at which all of this stands in the group's object.
	Fields Fields
}

// Fields are paths in a group's object, as they begin Difference.Field. What is
// empty has its default.
type Fields struct {
	// Version defaults to spec.version.
	Version string
	// Infrastructure defaults to spec.machineTemplate.spec.infrastructureRef.
	Infrastructure string
	// Inline defaults to spec.providerSpec.value.
	Inline string
	// Bootstrap defaults to spec.machineTemplate.spec.bootstrap.configRef.
	Bootstrap string
	// DataSecret defaults to spec.machineTemplate.spec.bootstrap.dataSecretName.
	DataSecret string
}

// complete returns the paths with their defaults.
func (f Fields) complete() Fields {
	return Fields{
		Version:        cmp.Or(f.Version, "spec.version"),
		Infrastructure: cmp.Or(f.Infrastructure, "spec.machineTemplate.spec.infrastructureRef"),
		Inline:         cmp.Or(f.Inline, "spec.providerSpec.value"),
		Bootstrap:      cmp.Or(f.Bootstrap, "spec.machineTemplate.spec.bootstrap.configRef"),
		DataSecret:     cmp.Or(f.DataSecret, "spec.machineTemplate.spec.bootstrap.dataSecretName"),
	}
}

// Compare returns in what a machine differs that only a new machine can change:
// version, infrastructure, bootstrap, in this order. An object that is not known,
// or does not say what it was made from, is no difference.
func (w Wanted) Compare(m Machine) []Difference {
	w.Fields = w.Fields.complete()
	found := w.compareVersion(m)
	switch {
	case w.Inline != nil:
		found = append(found, w.compareInline(m)...)
	case w.Infrastructure.IsDefined():
		found = append(found, w.compareInfrastructure(m)...)
	}
	switch {
	case w.Bootstrap.IsDefined():
		found = append(found, compareTemplate(w.Fields.Bootstrap, annotationsOf(m.bootstrap()), w.Bootstrap)...)
	case w.DataSecret != "":
		found = append(found, w.compareDataSecret(m)...)
	}
	return found
}

// compareVersion compares the versions letter by letter: another build of the same
// version is another version. A leading v may be missing.
func (w Wanted) compareVersion(m Machine) []Difference {
	was, want := m.Machine.Spec.Version, w.Version
	if want == "" || strings.TrimPrefix(was, "v") == strings.TrimPrefix(want, "v") {
		return nil
	}
	return []Difference{{Field: w.Fields.Version, Was: was, Want: want}}
}

// compareInfrastructure compares the template that the infrastructure was made
// from. Infrastructure that was made from an inline value was made from no template.
func (w Wanted) compareInfrastructure(m Machine) []Difference {
	annotations := annotationsOf(m.infrastructure())
	_, _, cloned := clonedFrom(annotations)
	if _, inline := annotations[ProviderSpecAnnotation]; inline && !cloned {
		return []Difference{{Field: w.Fields.Infrastructure + ".name", Want: w.Infrastructure.Name}}
	}
	return compareTemplate(w.Fields.Infrastructure, annotations, w.Infrastructure)
}

// compareDataSecret compares the name of the secret. A Machine that names none yet
// is one whose bootstrap object has not made it.
func (w Wanted) compareDataSecret(m Machine) []Difference {
	was := ""
	if name := m.Machine.Spec.Bootstrap.DataSecretName; name != nil {
		was = *name
	}
	if was == w.DataSecret {
		return nil
	}
	return []Difference{{Field: w.Fields.DataSecret, Was: was, Want: w.DataSecret}}
}

// compareTemplate compares the template that an object with these annotations was
// cloned from, by reference. What is in a template does not matter: templates do
// not change.
func compareTemplate(field string, annotations map[string]string, want clusterv1.ContractVersionedObjectReference) []Difference {
	name, kind, ok := clonedFrom(annotations)
	if !ok {
		return nil
	}
	wantKind := schema.GroupKind{Group: want.APIGroup, Kind: want.Kind}.String()
	var found []Difference
	if kind != wantKind {
		found = append(found, Difference{Field: field + ".kind", Was: kind, Want: wantKind})
	}
	if name != want.Name {
		found = append(found, Difference{Field: field + ".name", Was: name, Want: want.Name})
	}
	return found
}

// clonedFrom returns the template that an object was cloned from, by its name and
// its Kind.group. An object that was made by hand has none.
func clonedFrom(annotations map[string]string) (name, kind string, ok bool) {
	name, named := annotations[clusterv1.TemplateClonedFromNameAnnotation]
	kind, typed := annotations[clusterv1.TemplateClonedFromGroupKindAnnotation]
	return name, kind, named && typed
}

// annotationsOf returns the annotations of an object, which may be nil.
func annotationsOf(object metav1.Object) map[string]string {
	if object == nil {
		return nil
	}
	return object.GetAnnotations()
}
