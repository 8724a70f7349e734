package group

import (
	"maps"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/grouptest"
)

// TestRetell: other words for the same may wait, and anything else may not.
func TestRetell(t *testing.T) {
	machine := func(change func(*clusterv1.Machine)) *clusterv1.Machine {
		m := grouptest.Machines("m1")[0]
		m.Status.Phase = "Running"
		m.Status.Conditions = []metav1.Condition{
			{Type: "A", Status: metav1.ConditionFalse, Reason: "Waits", Message: "1 of 3", ObservedGeneration: 1},
			{Type: "B", Status: metav1.ConditionTrue, Reason: "Runs"},
			{Type: "MachinesReady", Status: metav1.ConditionUnknown, Reason: "ReadyUnknown", Message: "m1 is new"},
		}
		change(m)
		return m
	}
	set := func(c metav1.Condition) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) { conditions.Set(m, c) }
	}
	before := machine(func(*clusterv1.Machine) {})
	const base = 30 * time.Second
	for _, test := range []struct {
		what   string
		change func(*clusterv1.Machine)
		waits  time.Duration
	}{
		{"another message", set(metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "Waits", Message: "2 of 3",
			ObservedGeneration: 1}), base},
		{"another generation", func(m *clusterv1.Machine) { m.Status.Conditions[0].ObservedGeneration = 2 }, 6 * base},
		{"another message and generation", set(metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "Waits", Message: "2 of 3",
			ObservedGeneration: 2}), base},
		{"another reason", set(metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "Fails", Message: "1 of 3"}), 0},
		{"another status", set(metav1.Condition{Type: "B", Status: metav1.ConditionFalse, Reason: "Runs"}), 0},
		{"machines that are not ready, after they were not known to be",
			set(metav1.Condition{Type: "MachinesReady", Status: metav1.ConditionFalse, Reason: "NotReady"}), base},
		{"machines that are ready", set(metav1.Condition{Type: "MachinesReady", Status: metav1.ConditionTrue, Reason: "Ready"}), 0},
		{"one more", set(metav1.Condition{Type: "C", Status: metav1.ConditionFalse, Reason: "Waits"}), 0},
		{"one less", func(m *clusterv1.Machine) { conditions.Delete(m, "B") }, 0},
		{"one for another", func(m *clusterv1.Machine) { m.Status.Conditions[1].Type = "C" }, 0},
		{"more than conditions", func(m *clusterv1.Machine) { m.Status.Conditions[0].Message, m.Status.Phase = "2 of 3", "Failed" }, 0},
		{"more than generations", func(m *clusterv1.Machine) { m.Status.Conditions[0].ObservedGeneration, m.Status.Phase = 2, "Failed" }, 0},
	} {
		after := machine(test.change)
		turn := testTurn(grouptest.Object())
		if turn.mayWait("m1", before, after) {
			t.Errorf("%s: told at once is nothing by default", test.what)
		}
		turn.RetellAfter = base
		if turn.mayWait("m1", before, after) {
			t.Errorf("%s: nothing was told yet, and it waits", test.what)
		}
		turn.noteTold("m1")
		turn.Facts.Now = turn.Facts.Now.Add(20 * time.Second)
		if turn.mayWait("m2", before, after) || turn.mayWait("m1", before, after) != (test.waits > 0) {
			t.Errorf("%s waits: %v", test.what, test.waits == 0)
		}
		if again := turn.Again(plan.Decision{Step: plan.Step{Verb: plan.Nothing}}); test.waits > 0 && again != test.waits-20*time.Second {
			t.Errorf("%s: the next turn is after %s", test.what, again)
		}
		turn.Facts.Now = turn.Facts.Now.Add(test.waits - 20*time.Second)
		if turn.mayWait("m1", before, after) {
			t.Errorf("%s: it waits for longer than %s", test.what, test.waits)
		}
	}
	// What was ready is told at once to be so no more.
	ready := machine(set(metav1.Condition{Type: "MachinesReady", Status: metav1.ConditionTrue, Reason: "Ready"}))
	if differsIn(ready, before, retells) {
		t.Error("machines that are not ready any more are told of later")
	}
}

// TestStepTells: a Machine that was just made, deleted or released waits to be told of while it has no node or goes, and is told of then if
// it is still there.
func TestStepTells(t *testing.T) {
	for _, test := range []struct {
		what   string
		change func(*clusterv1.Machine)
		want   bool
	}{
		{"it has no node", func(*clusterv1.Machine) {}, true},
		{"it has a node", func(m *clusterv1.Machine) { m.Status.NodeRef.Name = "m1" }, false},
		{"it has a node and goes", func(m *clusterv1.Machine) {
			m.Status.NodeRef.Name, m.DeletionTimestamp = "m1", &metav1.Time{Time: time.Now()}
		}, true},
	} {
		before := grouptest.Machines("m1")[0]
		test.change(before)
		after := before.DeepCopy()
		conditions.Set(after, metav1.Condition{Type: "A", Status: metav1.ConditionUnknown, Reason: "NoNode"})
		turn := testTurn(grouptest.Object())
		turn.RetellAfter = time.Minute
		turn.noteStep("m1")
		if got := turn.mayWait("m1", before, after); got != test.want {
			t.Errorf("%s: it waits: %v, want %v", test.what, got, test.want)
		}
		if turn.Facts.Now = turn.Facts.Now.Add(time.Minute); turn.mayWait("m1", before, after) {
			t.Errorf("%s: it waits for longer than %s", test.what, turn.RetellAfter)
		}
		turn.noteStep("m1")
		if turn.noteTold("m1"); turn.mayWait("m1", before, after) {
			t.Errorf("%s: it was told of since, and what is new waits", test.what)
		}
	}
}

// TestGoingIsToldLater: who deletes or releases a Machine need not tell of it at once.
func TestGoingIsToldLater(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for what, verb := range map[string]plan.Verb{"deleted": plan.Delete, "released": plan.ReleaseHook} {
		m := grouptest.Machines("m1")[0]
		m.Status.NodeRef.Name = "m1"
		c := &Controller{Kind: testKind{}, Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(m.DeepCopy()).Build(),
			RetellAfter: time.Minute}
		turn := turnOf(c, observing(grouptest.Object(), m).View)
		if err := turn.act(t.Context(), plan.Decision{Step: plan.Step{Verb: verb, Machine: "m1"}}); err != nil {
			t.Fatal(err)
		}
		goes := m.DeepCopy()
		goes.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		after := goes.DeepCopy()
		conditions.Set(after, metav1.Condition{Type: "A", Status: metav1.ConditionFalse, Reason: "Goes"})
		if !turn.mayWait("m1", goes, after) {
			t.Errorf("a Machine that was %s is told of at once", what)
		}
	}
}

// TestForgetTold: what was told of a Machine is forgotten with it, unless the cache may not show it yet.
func TestForgetTold(t *testing.T) {
	turn := testTurn(grouptest.Object(), grouptest.Machines("here")...)
	turn.RetellAfter = time.Minute
	for _, name := range []string{"", "here", "gone"} {
		turn.noteTold(name)
	}
	turn.Facts.Now = turn.Facts.Now.Add(time.Minute)
	turn.noteStep("made")
	turn.forgetTold()
	if got := slices.Sorted(maps.Keys(turn.past.told)); !slices.Equal(got, []string{"", "here", "made"}) {
		t.Errorf("remembered is what was told of %q", got)
	}
}
