package host

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/featuregate"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/feature"
)

func TestConnectable(t *testing.T) {
	yes, no := true, false
	condition := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: status}}
	}
	for _, c := range []struct {
		name       string
		field      *bool
		conditions []metav1.Condition
		want       bool
	}{
		{name: "new"},
		{name: "not yet", field: &no, conditions: condition(metav1.ConditionFalse)},
		{name: "the field only", field: &yes, conditions: condition(metav1.ConditionFalse)},
		{name: "the condition only", conditions: condition(metav1.ConditionTrue)},
		{name: "both", field: &yes, conditions: condition(metav1.ConditionTrue), want: true},
	} {
		cluster := &clusterv1.Cluster{Status: clusterv1.ClusterStatus{Conditions: c.conditions}}
		cluster.Status.Initialization.ControlPlaneInitialized = c.field
		if got := connectable(cluster); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

func TestFeatures(t *testing.T) {
	for _, extensions := range []bool{true, false} {
		if err := setGates(extensions); err != nil {
			t.Fatal(err)
		}
		for gate, want := range map[featuregate.Feature]bool{
			feature.ClusterTopology: true, feature.MachinePool: false, feature.ReconcilerRateLimiting: false,
			feature.RuntimeSDK: extensions, feature.InPlaceUpdates: extensions,
		} {
			if got := feature.Gates.Enabled(gate); got != want {
				t.Errorf("%s: %t, want %t", gate, got, want)
			}
		}
	}
}
