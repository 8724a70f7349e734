package host

import (
	"errors"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/quorate/quorate/internal/local/provider"
)

// TestContents: with Cluster API's controllers run all of them, with machines the local provider alone.
func TestContents(t *testing.T) {
	of := func(o Options) []string {
		var names []string
		for _, p := range contents {
			if o.runs(p) {
				if slices.Contains(names, p.name) {
					t.Errorf("%s is listed twice", p.name)
				}
				names = append(names, p.name)
			}
		}
		return names
	}
	const machines = "LocalCluster and LocalMachine"
	if all := of(Options{Embedded: &Embedded{}, Local: &provider.Options{}}); len(all) != len(contents) {
		t.Errorf("on a single host only %q run", all)
	}
	if all := of(Options{Embedded: &Embedded{}}); len(all) != len(contents)-1 || slices.Contains(all, machines) {
		t.Errorf("without machines %q run", all)
	}
	if all := of(Options{Local: &provider.Options{}}); !slices.Equal(all, []string{machines}) {
		t.Errorf("for machines alone %q run", all)
	}
}

// TestCache: where upstream's controllers run, which mend managed fields that are missing, the cache has them.
func TestCache(t *testing.T) {
	for name, o := range map[string]Options{"upstream's": {Embedded: &Embedded{}}, "machines alone": {Local: &provider.Options{}}} {
		var got cache.Options
		asked := errors.New("asked")
		_, err := New(&rest.Config{Host: "https://127.0.0.1:1"},
			ctrl.Options{NewCache: func(_ *rest.Config, c cache.Options) (cache.Cache, error) {
				got = c
				return nil, asked
			}}, o)
		if !errors.Is(err, asked) || (got.DefaultTransform == nil) != (o.Embedded != nil) {
			t.Errorf("%s: managed fields are dropped: %t, %v", name, got.DefaultTransform != nil, err)
		}
	}
}

func TestConnectable(t *testing.T) {
	yes, no := true, false
	kept := clusterv1.ClusterSpec{ControlPlaneRef: clusterv1.ContractVersionedObjectReference{Kind: "KubeadmControlPlane", Name: "demo"}}
	condition := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: status}}
	}
	for _, c := range []struct {
		name       string
		field      *bool
		conditions []metav1.Condition
		spec       clusterv1.ClusterSpec
		want       bool
	}{
		{name: "new", spec: kept},
		{name: "machines of nobody's control plane", spec: clusterv1.ClusterSpec{}, want: true},
		{name: "of a class, before its control plane is there",
			spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}}}},
		{name: "not yet", spec: kept, field: &no, conditions: condition(metav1.ConditionFalse)},
		{name: "the field only", spec: kept, field: &yes, conditions: condition(metav1.ConditionFalse)},
		{name: "the condition only", spec: kept, conditions: condition(metav1.ConditionTrue)},
		{name: "both", spec: kept, field: &yes, conditions: condition(metav1.ConditionTrue), want: true},
	} {
		cluster := &clusterv1.Cluster{Spec: c.spec, Status: clusterv1.ClusterStatus{Conditions: c.conditions}}
		cluster.Status.Initialization.ControlPlaneInitialized = c.field
		if got := connectable(cluster); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestFeatures(t *testing.T) {
	for _, extensions := range []bool{true, false} {
		if err := setGates(extensions, map[string]bool{"MachineTaintPropagation": extensions, "ReconcilerRateLimiting": false}); err != nil {
			t.Fatal(err)
		}
		for gate, want := range map[featuregate.Feature]bool{
			feature.ClusterTopology: true, feature.MachinePool: false, feature.ReconcilerRateLimiting: false,
			feature.RuntimeSDK: extensions, feature.InPlaceUpdates: extensions, feature.MachineTaintPropagation: extensions,
		} {
			if got := feature.Gates.Enabled(gate); got != want {
				t.Errorf("%s: %t, want %t", gate, got, want)
			}
		}
	}
}
