package grouptest

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// Key is that of Object.
var Key = client.ObjectKey{Namespace: "default", Name: "demo-cp"}

// Object is a group's object, with nothing in its spec.
func Object() *controlplanev1.KubeadmControlPlane {
	return &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: Key.Namespace, Name: Key.Name, UID: "kcp-uid"}}
}

// Cluster is the Cluster of Object, whose infrastructure is ready, with one failure domain.
func Cluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}
	c.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "172.30.0.10", Port: 6443}
	c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: Key.Name,
	}
	c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	c.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "a", ControlPlane: ptr.To(true)}}
	return c
}

// Machines returns Machines of these names; the words "gone=held" say that one is being deleted.
func Machines(names ...string) []*clusterv1.Machine {
	var machines []*clusterv1.Machine
	for _, words := range names {
		name, rest, _ := strings.Cut(words, " ")
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if rest == "gone=held" {
			m.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		}
		machines = append(machines, m)
	}
	return machines
}

// MachineOf is a Machine of a cluster with labels.
func MachineOf(cluster, name string, has map[string]string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: cluster},
	}}
	for key, value := range has {
		m.Labels[key] = value
	}
	m.Spec.ClusterName = cluster
	return m
}

// Thing is an object of a provider's kind as it is in a test: its version, generation, labels and whether it is owned.
func Thing(version string, change func(*unstructured.Unstructured)) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(schema.GroupVersionKind{Group: "provider.example", Version: "v1", Kind: "Thing"})
	u.SetNamespace("default")
	u.SetName("a")
	u.SetResourceVersion(version)
	u.SetGeneration(1)
	u.SetOwnerReferences([]metav1.OwnerReference{{Name: "owner", UID: "1"}})
	if change != nil {
		change(u)
	}
	return u
}

// Scheme knows what lists of machines and groups need.
func Scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, controlplanev1.AddToScheme, etcdclusterv1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}
