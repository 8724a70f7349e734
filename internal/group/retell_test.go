package group

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/quorate/quorate/internal/plan"
)

// TestRetell: other words for the same may wait, and anything else may not.
func TestRetell(t *testing.T) {
	machine := func(change func(*clusterv1.Machine)) *clusterv1.Machine {
		m := named("m1")[0]
		m.Status.Phase = "Running"
		m.Status.Conditions = []metav1.Condition{
			{Type: "A", Status: metav1.ConditionFalse, Reason: "Waits", Message: "1 of 3", ObservedGeneration: 1},
			{Type: "B", Status: metav1.ConditionTrue, Reason: "Runs"},
		}
		change(m)
		return m
	}
	set := func(c metav1.Condition) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) { conditions.Set(m, c) }
	}
	before := machine(func(*clusterv1.Machine) {})
	for _, test := range []struct {
		what   string
		change func(*clusterv1.Machine)
		want   bool
	}{
		{"another message", set(metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "Waits", Message: "2 of 3"}), true},
		{"another generation", func(m *clusterv1.Machine) { m.Status.Conditions[0].ObservedGeneration = 2 }, true},
		{"another reason", set(metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "Fails", Message: "1 of 3"}), false},
		{"another status", set(metav1.Condition{Type: "B", Status: metav1.ConditionFalse, Reason: "Runs"}), false},
		{"one more", set(metav1.Condition{Type: "C", Status: metav1.ConditionFalse, Reason: "Waits"}), false},
		{"one less", func(m *clusterv1.Machine) { conditions.Delete(m, "B") }, false},
		{"one for another", func(m *clusterv1.Machine) { m.Status.Conditions[1].Type = "C" }, false},
		{"more than conditions", func(m *clusterv1.Machine) { m.Status.Conditions[0].Message, m.Status.Phase = "2 of 3", "Failed" }, false},
	} {
		after := machine(test.change)
		if got := onlyRetells(before, after); got != test.want {
			t.Errorf("%s only retells: %v, want %v", test.what, got, test.want)
		}
		turn := testTurn(testObject())
		turn.Memory = &Memory{}
		if turn.mayWait("m1", before, after) {
			t.Errorf("%s: told at once is nothing by default", test.what)
		}
		turn.RetellAfter = time.Minute
		if turn.mayWait("m1", before, after) {
			t.Errorf("%s: nothing was told yet, and it waits", test.what)
		}
		turn.noteTold("m1")
		turn.Facts.Now = turn.Facts.Now.Add(20 * time.Second)
		if turn.mayWait("m2", before, after) || turn.mayWait("m1", before, after) != test.want {
			t.Errorf("%s waits: %v, want %v", test.what, !test.want, test.want)
		}
		if again := turn.Again(plan.Decision{Step: plan.Step{Verb: plan.Nothing}}); test.want && again != 40*time.Second {
			t.Errorf("%s: the next turn is after %s", test.what, again)
		}
		turn.Facts.Now = turn.Facts.Now.Add(40 * time.Second)
		if turn.mayWait("m1", before, after) {
			t.Errorf("%s: it waits for longer than %s", test.what, turn.RetellAfter)
		}
	}
}
