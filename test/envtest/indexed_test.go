package envtest

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quorate/quorate/internal/manager"
)

// TestIndexed: the manager's client lists a cluster's objects by an index, also one that is made when the cache is full, of each Go type
// that a kind is read as; what is read from the API server, which knows no such index, is listed as ever.
func TestIndexed(t *testing.T) {
	needAssets(t)
	_, config := startPlanServer(t)
	mgr, err := manager.New(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}}, manager.Options{})
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	machine := func(name, cluster string) *clusterv1.Machine {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster}}}
		m.Spec.ClusterName, m.Spec.Bootstrap.DataSecretName = cluster, ptr.To("data")
		m.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{APIGroup: "infrastructure.cluster.x-k8s.io", Kind: "LocalMachine",
			Name: name}
		return m
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s",
		Labels: map[string]string{clusterv1.ClusterNameLabel: "mine"}}}
	other := machine("b", "yours")
	for _, o := range []client.Object{machine("a", "mine"), other, machine("c", "mine"), secret} {
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := mgr.GetCache().GetInformer(t.Context(), &clusterv1.Machine{}); err != nil {
		t.Fatal(err)
	}
	go func() { _ = mgr.Start(t.Context()) }() // what it cannot do, the lists tell
	if !mgr.GetCache().WaitForCacheSync(t.Context()) {
		t.Fatal("the cache is not filled")
	}
	mine := client.MatchingLabels{clusterv1.ClusterNameLabel: "mine"}
	untyped := func() *unstructured.UnstructuredList {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("MachineList"))
		return l
	}
	is := func(names ...string) bool {
		t.Helper()
		// Afterwards both lists are there by the index alone.
		for _, by := range []client.ListOption{mine, client.MatchingFields{"quorate/cluster": "mine"}} {
			for _, list := range []client.ObjectList{&clusterv1.MachineList{}, untyped()} {
				if err := mgr.GetClient().List(t.Context(), list, client.InNamespace("default"), by); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(namesOf(t, list), names) {
					return false
				}
			}
		}
		return true
	}
	if !is("a", "c") {
		t.Error("not the Machines of the cluster")
	}
	other.Labels = mine
	if err := api.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true,
		func(context.Context) (bool, error) { return is("a", "b", "c"), nil })
	if err != nil {
		t.Errorf("another label is not noticed: %v", err)
	}
	secrets := &corev1.SecretList{}
	if err := mgr.GetClient().List(t.Context(), secrets, client.InNamespace("default"), mine); err != nil || len(secrets.Items) != 1 {
		t.Errorf("%d secrets: %v", len(secrets.Items), err)
	}
}

// namesOf are the names of what a list has, sorted.
func namesOf(t *testing.T, list client.ObjectList) []string {
	t.Helper()
	var names []string
	err := meta.EachListItem(list, func(o runtime.Object) error {
		names = append(names, o.(client.Object).GetName())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}
