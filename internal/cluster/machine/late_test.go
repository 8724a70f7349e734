package machine

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

func TestLateDeletions(t *testing.T) {
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-d)) }
	going := func(m *clusterv1.Machine, since, drained time.Duration, message string) {
		at := ago(since)
		m.DeletionTimestamp = &at
		m.Status.Deletion = &clusterv1.MachineDeletionStatus{NodeDrainStartTime: ago(drained)}
		m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineDeletingCondition, Status: metav1.ConditionTrue,
			Reason: clusterv1.MachineDeletingDrainingNodeReason, Message: message}}
	}
	const budget = "* Pod a/b: cannot evict pod as it would violate the pod's disruption budget. The disruption budget x needs 1"
	tests := []struct {
		name   string
		change func([]*clusterv1.Machine)
		want   string
	}{
		{"none is deleted", func([]*clusterv1.Machine) {}, ""},
		{"not for long", func(m []*clusterv1.Machine) { going(m[0], 10*time.Minute, 10*time.Minute, budget) }, ""},
		{"a budget", func(m []*clusterv1.Machine) { going(m[0], 20*time.Minute, 10*time.Minute, budget) },
			"m1 is being deleted for more than 15 min, probably because of PodDisruptionBudgets"},
		{"the drain has just begun", func(m []*clusterv1.Machine) { going(m[0], 20*time.Minute, time.Minute, budget) },
			"m1 is being deleted for more than 15 min"},
		{"several reasons", func(m []*clusterv1.Machine) {
			going(m[1], 20*time.Minute, 10*time.Minute, "* Pod a/b: waiting for completion")
			going(m[0], 20*time.Minute, 10*time.Minute, budget)
		}, "m1, m2 are being deleted for more than 15 min, probably because of PodDisruptionBudgets, Pods not completed yet"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			machines := []*clusterv1.Machine{{}, {}, {}}
			for i, m := range machines {
				m.Name = fmt.Sprintf("m%d", i+1)
			}
			test.change(machines)
			if got := LateDeletions(machines, time.Now()); got != test.want {
				t.Errorf("late: %q, want %q", got, test.want)
			}
		})
	}
}
