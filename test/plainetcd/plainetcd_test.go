package plainetcd

import (
	"context"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// TestNothingOfQuorate: the provider shows that the contract is enough, so that it uses nothing of Quorate.
func TestNothingOfQuorate(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dependency := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(dependency, "github.com/quorate/") && !strings.HasSuffix(dependency, "/test/plainetcd") {
			t.Errorf("it depends on %s", dependency)
		}
	}
}

var (
	infrastructure = schema.GroupVersionKind{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1", Kind: "HostMachine"}
	kcp            = schema.GroupVersionKind{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2", Kind: "KubeadmControlPlane"}
)

// stage is a Cluster with an etcd of two members, whose reconciler is called by hand.
type stage struct {
	*testing.T
	client.Client
	*reconciler
	serving map[string]bool
}

func newStage(t *testing.T) *stage {
	t.Helper()
	scheme, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper([]schema.GroupVersion{kcp.GroupVersion()})
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, clusterv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	for gvk := range scheme.AllKnownTypes() {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	for _, gvk := range []schema.GroupVersionKind{Kind, infrastructure, kcp} {
		mapper.Add(gvk, meta.RESTScopeNamespace)
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo", UID: "1", Finalizers: []string{"held"}}}
	cluster.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{APIGroup: kcp.Group, Kind: kcp.Kind, Name: "demo-cp"}
	etcd := object(Kind, "demo-etcd")
	etcd.SetUID("2")
	etcd.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "demo"})
	etcd.Object["spec"] = map[string]any{
		"archive":        "/etcd.tar.gz",
		"infrastructure": map[string]any{"apiVersion": infrastructure.GroupVersion().String(), "kind": infrastructure.Kind},
		"members":        []any{map[string]any{"address": "10.0.0.1"}, map[string]any{"address": "10.0.0.2"}},
	}
	controlPlane := object(kcp, "demo-cp")
	controlPlane.SetFinalizers([]string{"held"})
	c := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithStatusSubresource(etcd).
		WithObjects(cluster, etcd, controlPlane).Build()
	s := &stage{T: t, Client: c, serving: map[string]bool{}}
	s.reconciler = &reconciler{client: c, healthy: func(_ context.Context, _ *authority, address string) bool { return s.serving[address] }}
	return s
}

func object(gvk schema.GroupVersionKind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	o.SetNamespace("default")
	o.SetName(name)
	return o
}

// turn has the object looked at, and returns it; nil: it is gone.
func (s *stage) turn() *unstructured.Unstructured {
	s.Helper()
	key := client.ObjectKey{Namespace: "default", Name: "demo-etcd"}
	if _, err := s.Reconcile(s.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		s.Fatal(err)
	}
	etcd := object(Kind, key.Name)
	if client.IgnoreNotFound(s.Get(s.Context(), key, etcd)) != nil {
		s.Fatal("the object cannot be read")
	}
	if etcd.GetUID() == "" {
		return nil
	}
	return etcd
}

// release lets an object go that is being deleted.
func (s *stage) release(o client.Object) {
	s.Helper()
	if err := s.Get(s.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		s.Fatal(err)
	}
	if o.GetDeletionTimestamp().IsZero() {
		s.Fatalf("%s is not being deleted", o.GetName())
	}
	o.SetFinalizers(nil)
	if err := s.Update(s.Context(), o); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) machineNames() []string {
	s.Helper()
	all := &clusterv1.MachineList{}
	if err := s.List(s.Context(), all); err != nil {
		s.Fatal(err)
	}
	var names []string
	for _, m := range all.Items {
		names = append(names, m.Name)
	}
	return names
}

// TestContract: it is ready once all members have served, and stays ready; the secrets are those of the contract.
func TestContract(t *testing.T) {
	s := newStage(t)
	s.serving["10.0.0.1"] = true
	status := func() string {
		e := s.turn()
		ready, _, _ := unstructured.NestedBool(e.Object, "status", "ready")
		endpoints, _, _ := unstructured.NestedString(e.Object, "status", "endpoints")
		message, _, _ := unstructured.NestedString(e.Object, "status", "plan", "message")
		return strings.Join([]string{map[bool]string{true: "ready", false: "not ready"}[ready], endpoints, message}, "; ")
	}
	if got := status(); got != "not ready; ; 1 of 2 members serve" {
		t.Error(got)
	}
	s.serving["10.0.0.2"] = true
	if got := status(); got != "ready; https://10.0.0.1:2379,https://10.0.0.2:2379; 2 of 2 members serve" {
		t.Error(got)
	}
	clear(s.serving)
	if got := status(); got != "ready; https://10.0.0.1:2379,https://10.0.0.2:2379; 0 of 2 members serve" {
		t.Error(got)
	}
	if got := s.machineNames(); !slices.Equal(got, []string{"demo-etcd-0", "demo-etcd-1"}) {
		t.Errorf("the Machines are %v", got)
	}
	for name, keys := range map[string]int{"demo-etcd": 1, "demo-apiserver-etcd-client": 2, "demo-managed-etcd": 2} {
		found := &corev1.Secret{}
		if err := s.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, found); err != nil {
			t.Fatal(err)
		}
		if len(found.Data) != keys || found.Type != clusterv1.ClusterSecretType || found.Labels[clusterv1.ClusterNameLabel] != "demo" ||
			metav1.GetControllerOf(found) == nil {
			t.Errorf("secret %s has %d keys, type %s, labels %v, owners %v", name, len(found.Data), found.Type, found.Labels, found.OwnerReferences)
		}
	}
}

// TestOrderOfDeletion: with its Cluster go the workers, the control plane, and then etcd with its secrets.
func TestOrderOfDeletion(t *testing.T) {
	s := newStage(t)
	s.turn()
	machine := func(name string, labels map[string]string) *clusterv1.Machine {
		labels[clusterv1.ClusterNameLabel] = "demo"
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels, Finalizers: []string{"held"}}}
		if err := s.Create(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	worker := machine("worker", map[string]string{})
	first := machine("demo-cp-1", map[string]string{clusterv1.MachineControlPlaneLabel: ""})
	if err := s.Delete(t.Context(), &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo"}}); err != nil {
		t.Fatal(err)
	}
	controlPlane := object(kcp, "demo-cp")
	begins := func() bool {
		s.turn()
		if err := s.Get(t.Context(), client.ObjectKeyFromObject(controlPlane), controlPlane); err != nil {
			t.Fatal(err)
		}
		return !controlPlane.GetDeletionTimestamp().IsZero()
	}
	if begins() {
		t.Error("the control plane is deleted while a worker is there")
	}
	for _, o := range []client.Object{worker, first} {
		if o == client.Object(first) && !begins() {
			t.Error("the control plane stays without workers")
		}
		if e := s.turn(); !e.GetDeletionTimestamp().IsZero() {
			t.Errorf("etcd is deleted while %s is there", o.GetName())
		}
		if err := s.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		s.release(o)
	}
	s.release(controlPlane)
	if e := s.turn(); e.GetDeletionTimestamp().IsZero() {
		t.Error("etcd stays without a control plane")
	}
	s.turn()
	if left := s.machineNames(); len(left) > 0 || s.turn() != nil {
		t.Errorf("Machines %v are left, or the object is", left)
	}
	secrets := &corev1.SecretList{}
	if err := s.List(t.Context(), secrets); err != nil || len(secrets.Items) > 0 {
		t.Errorf("%d secrets are left, %v", len(secrets.Items), err)
	}
}

// TestDeletedFirst: etcd that is deleted before its control plane keeps its members, and says for which Machines.
func TestDeletedFirst(t *testing.T) {
	s := newStage(t)
	s.turn()
	labels := map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachineControlPlaneLabel: ""}
	if err := s.Create(t.Context(),
		&clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "demo-cp-1", Labels: labels}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), object(Kind, "demo-etcd")); err != nil {
		t.Fatal(err)
	}
	e := s.turn()
	if e == nil {
		t.Fatal("etcd is gone before its control plane")
	}
	message, _, _ := unstructured.NestedString(e.Object, "status", "plan", "message")
	if got := s.machineNames(); message != "members stay for Machines demo-cp-1" || len(got) != 3 {
		t.Errorf("it says %q, and there are %v", message, got)
	}
}
