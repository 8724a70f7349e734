package manifest

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// Reference is one object that another names.
type Reference struct {
	schema.GroupKind
	client.ObjectKey
}

// String is the kind and the name.
func (r Reference) String() string { return r.Kind + " " + r.Name }

// etcdField is where control planes of all kinds name who keeps their etcd.
const etcdField = "spec.managedExternalEtcdRef"

// referenceFields are where the kinds of a cluster name others.
var referenceFields = map[schema.GroupKind][]string{
	{Group: clusterv1.GroupVersion.Group, Kind: "Cluster"}:               {"spec.controlPlaneRef", "spec.infrastructureRef"},
	{Group: controlPlaneGroup, Kind: string(KubeadmControlPlane)}:        {"spec.machineTemplate.spec.infrastructureRef", etcdField},
	{Group: etcdclusterv1alpha1.GroupVersion.Group, Kind: "EtcdCluster"}: {"spec.infrastructureTemplate"},
	{Group: controlPlaneGroup, Kind: string(ControlPlane)}: {"spec.machineTemplate.spec.infrastructureRef",
		"spec.machineTemplate.spec.bootstrap.configRef", etcdField},
	{Group: clusterv1.GroupVersion.Group, Kind: "MachineDeployment"}: {"spec.template.spec.infrastructureRef",
		"spec.template.spec.bootstrap.configRef"},
	{Group: clusterv1.GroupVersion.Group, Kind: "MachineSet"}: {"spec.template.spec.infrastructureRef",
		"spec.template.spec.bootstrap.configRef"},
}

// CheckObjects says what is wrong with a user's objects. It checks
// replicas, versions (those that can be had are given), objects given twice, and references to
// objects that are neither among them nor, as exists says, already applied.
func CheckObjects(objects []*unstructured.Unstructured, versions []string, exists func(Reference) (bool, error)) error {
	given := map[Reference]bool{}
	for _, o := range objects {
		r := referenceTo(o)
		if given[r] {
			return fmt.Errorf("%s is given twice: must be given once", r)
		}
		given[r] = true
	}
	for _, o := range objects {
		if err := checkObject(o, versions); err != nil {
			return err
		}
		if err := checkReferences(o, given, exists); err != nil {
			return err
		}
	}
	return checkFamiliesOfEtcd(objects)
}

// CheckReferencesOf says what an object names that is neither among those given nor, as exists says, already applied.
func CheckReferencesOf(o *unstructured.Unstructured, objects []*unstructured.Unstructured, exists func(Reference) (bool, error)) error {
	given := map[Reference]bool{}
	for _, other := range objects {
		given[referenceTo(other)] = true
	}
	return checkReferences(o, given, exists)
}

func referenceTo(o *unstructured.Unstructured) Reference {
	return Reference{o.GroupVersionKind().GroupKind(), client.ObjectKey{Namespace: namespace(o), Name: o.GetName()}}
}

func namespace(o *unstructured.Unstructured) string {
	if ns := o.GetNamespace(); ns != "" {
		return ns
	}
	return "default"
}

func checkObject(o *unstructured.Unstructured, versions []string) error {
	where := o.GetKind() + " " + o.GetName() + ": "
	switch o.GroupVersionKind().GroupKind() {
	case schema.GroupKind{Group: controlPlaneGroup, Kind: string(KubeadmControlPlane)},
		schema.GroupKind{Group: controlPlaneGroup, Kind: string(ControlPlane)}:
		if n, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas"); found && hasEtcd(o) {
			if err := checkReplicas(where, "spec.replicas", n); err != nil {
				return err
			}
		}
		return checkVersionAt(o, where, versions, "spec", "version")
	case schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "MachineDeployment"},
		schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "MachineSet"}:
		return checkVersionAt(o, where, versions, "spec", "template", "spec", "version")
	case schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "Cluster"}:
		if err := CheckName(o.GetName()); err != nil {
			return fmt.Errorf("%s: %s", o.GetKind(), strings.Replace(err.Error(), "--name", "metadata.name", 1))
		}
		return checkVersionAt(o, where, versions, "spec", "topology", "version")
	}
	return nil
}

// hasEtcd reports whether etcd may run on the machines of a control plane.
func hasEtcd(controlPlane *unstructured.Unstructured) bool {
	if _, managed, _ := unstructured.NestedMap(controlPlane.Object, strings.Split(etcdField, ".")...); managed {
		return false
	}
	if Kind(controlPlane.GetKind()) == ControlPlane {
		management, _, _ := unstructured.NestedString(controlPlane.Object, "spec", "etcd", "management")
		return management != string(controlplanev1alpha1.EtcdManagementNone)
	}
	_, external, _ := unstructured.NestedMap(controlPlane.Object, "spec", "kubeadmConfigSpec", "clusterConfiguration", "etcd", "external")
	return !external
}

func checkVersionAt(o *unstructured.Unstructured, where string, versions []string, path ...string) error {
	v, found, _ := unstructured.NestedString(o.Object, path...)
	if !found {
		return nil
	}
	return checkVersion(where, strings.Join(path, "."), v, versions)
}

func checkReferences(o *unstructured.Unstructured, given map[Reference]bool, exists func(Reference) (bool, error)) error {
	for _, field := range referenceFields[o.GroupVersionKind().GroupKind()] {
		r, named := referenceIn(o, field)
		if !named || given[r] {
			continue
		}
		there, err := exists(r)
		if err != nil {
			return fmt.Errorf("looking for %s, which %s %s names: %w", r, o.GetKind(), o.GetName(), err)
		}
		if !there {
			return fmt.Errorf("%s %s: %s is %s, which is neither in the manifests nor applied before", o.GetKind(), o.GetName(), field, r)
		}
	}
	return nil
}

// referenceIn returns what a field of an object refers to; false: it refers to nothing, or only the Cluster that owns the object says to
// what.
func referenceIn(o *unstructured.Unstructured, field string) (Reference, bool) {
	m, found, _ := unstructured.NestedStringMap(o.Object, strings.Split(field, ".")...)
	if !found {
		return Reference{}, false
	}
	r := Reference{
		schema.GroupKind{Group: m["apiGroup"], Kind: m["kind"]},
		client.ObjectKey{Namespace: namespace(o), Name: m["name"]},
	}
	if m["apiGroup"] == "" {
		r.Group = schema.FromAPIVersionAndKind(m["apiVersion"], m["kind"]).Group // the form of Cluster API's v1beta1
	}
	if field != etcdField || r.Name != "" {
		return r, true
	}
	cluster := o.GetLabels()[clusterv1.ClusterNameLabel]
	r.Name = etcdName(cluster)
	return r, cluster != ""
}

// Clusters are the names of the Clusters among objects.
func Clusters(objects []*unstructured.Unstructured) []client.ObjectKey {
	var keys []client.ObjectKey
	for _, o := range objects {
		if o.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: clusterv1.GroupVersion.Group, Kind: "Cluster"}) {
			keys = append(keys, client.ObjectKey{Namespace: namespace(o), Name: o.GetName()})
		}
	}
	return keys
}

// Versions are the Kubernetes versions that the machines of objects want, without doubles, in their order.
func Versions(objects []*unstructured.Unstructured) []string {
	var versions []string
	seen := map[string]bool{}
	for _, o := range objects {
		if o.GetKind() == "EtcdCluster" {
			continue // that is etcd's
		}
		for _, path := range [][]string{{"spec", "version"}, {"spec", "template", "spec", "version"}, {"spec", "topology", "version"}} {
			if v, found, _ := unstructured.NestedString(o.Object, path...); found && !seen[v] {
				seen[v] = true
				versions = append(versions, v)
			}
		}
	}
	return versions
}

// Machines is how many machines objects want.
func Machines(objects []*unstructured.Unstructured) int {
	sum := 0
	for _, o := range objects {
		kind := o.GroupVersionKind().GroupKind()
		if _, counts := referenceFields[kind]; !counts || kind.Kind == "Cluster" {
			continue
		}
		n, found, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
		if !found {
			n = 1
		}
		sum += int(n)
	}
	return sum
}
