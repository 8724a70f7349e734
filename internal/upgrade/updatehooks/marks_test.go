package updatehooks

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/quorate/quorate/internal/core/plan"
)

func TestFact(t *testing.T) {
	const goal, mark, hooks = GoalAnnotation, clusterv1.UpdateInProgressAnnotation, runtimev1.PendingHooksAnnotation
	const notCalled = "Cluster API has not called the Runtime Extension yet, which it does with the feature gate InPlaceUpdates"
	updating := func(reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: clusterv1.MachineUpdatingCondition, Status: metav1.ConditionTrue, Reason: reason, Message: message}
	}
	for _, r := range []struct {
		name        string
		annotations map[string]string
		condition   *metav1.Condition
		want        plan.Update
	}{
		{name: "nothing"},
		{name: "somebody else's", annotations: map[string]string{mark: "", hooks: "UpdateMachine"}},
		{name: "begun in part", annotations: map[string]string{goal: "a v1", mark: ""}, want: plan.Update{State: plan.UpdateUnderway,
			Unfinished: true, Message: "not all of its objects are marked for the Runtime Extension"}},
		{name: "begun in part, beside another hook", annotations: map[string]string{goal: "a v1", mark: "", hooks: "AfterUpdateMachine"},
			condition: updating("InPlaceUpdating", "In-place update in progress"),
			want: plan.Update{State: plan.UpdateUnderway, Unfinished: true, Message: "not all of its objects are marked for the Runtime " +
				"Extension"}},
		{name: "not called", annotations: map[string]string{goal: "a v1", mark: "", hooks: "UpdateMachine"},
			want: plan.Update{State: plan.UpdateUnderway, Message: notCalled}},
		{name: "under way", annotations: map[string]string{goal: "a v1", mark: "", hooks: "A,UpdateMachine"},
			condition: updating("InPlaceUpdating", "rebooting\nnow"), want: plan.Update{State: plan.UpdateUnderway, Message: "rebooting; now"}},
		{name: "failing", annotations: map[string]string{goal: "a v1", mark: "", hooks: "UpdateMachine"},
			condition: updating(clusterv1.MachineInPlaceUpdateFailedReason, "no power"),
			want:      plan.Update{State: plan.UpdateUnderway, Message: "the Runtime Extension failed, and Cluster API asks it again: no power"}},
		{name: "ending", annotations: map[string]string{goal: "a v1", hooks: "UpdateMachine"}, want: plan.Update{State: plan.UpdateUnderway,
			Message: notCalled}},
		{name: "ended, and not reported", annotations: map[string]string{goal: "a v1"}, condition: updating("InPlaceUpdating", "rebooting"),
			want: plan.Update{State: plan.UpdateUnderway, Message: "rebooting"}},
		{name: "ended", annotations: map[string]string{goal: "a v1"},
			want: plan.Update{State: plan.UpdateDone, Message: "the Runtime Extension has finished"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: r.annotations}}
			if r.condition != nil {
				conditions.Set(m, *r.condition)
			}
			if got, ours := Fact(m); got != r.want || ours != (r.want != plan.Update{}) {
				t.Errorf("%+v, %v, want %+v", got, ours, r.want)
			}
		})
	}
}

// TestGoal: the goal is the same whether the parts were written or not, and another one for each thing that is wanted otherwise.
func TestGoal(t *testing.T) {
	parts := Parts{Machine: &clusterv1.Machine{}, Bootstrap: box(t, "Script", `{"a":1}`), Infrastructure: box(t, "Box", `{"cpu":2}`)}
	parts.Machine.Spec.Version = "v1.36.3"
	template := box(t, "BoxTemplate", `{"cpu":4}`)
	goal := NewGoal(parts, template)
	m := &clusterv1.Machine{}
	Mark(m)
	m.Annotations[GoalAnnotation] = goal.String()
	if read, ours := GoalOf(m); read != goal || !ours || goal.Version != "v1.36.3" {
		t.Errorf("%+v, read as %+v", goal, read)
	}
	written := parts.DeepCopy()
	written.Infrastructure = box(t, "Box", `{"cpu":4}`)
	if NewGoal(written, template) != goal {
		t.Error("another goal once the parts are written")
	}
	for name, change := range map[string]func(p *Parts){
		"version":   func(p *Parts) { p.Machine.Spec.Version = "v1.37.0" },
		"bootstrap": func(p *Parts) { p.Bootstrap = box(t, "Script", `{"a":2}`) },
	} {
		other := parts.DeepCopy()
		change(&other)
		if NewGoal(other, template) == goal {
			t.Errorf("another %s is the same goal", name)
		}
	}
	if NewGoal(parts, box(t, "BoxTemplate", `{"cpu":8}`)) == goal || NewGoal(parts, nil) == goal {
		t.Error("another template is the same goal")
	}
}

func TestMarkPending(t *testing.T) {
	for before, want := range map[string]string{"": "UpdateMachine", "A": "A,UpdateMachine", "A,UpdateMachine": "A,UpdateMachine",
		"UpdateMachine": "UpdateMachine"} {
		m := &clusterv1.Machine{}
		if before != "" {
			m.Annotations = map[string]string{runtimev1.PendingHooksAnnotation: before}
		}
		if MarkPending(m); m.Annotations[runtimev1.PendingHooksAnnotation] != want || !IsPending(m) {
			t.Errorf("%q became %q, want %q", before, m.Annotations[runtimev1.PendingHooksAnnotation], want)
		}
	}
}
