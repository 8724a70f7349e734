package updatehooks

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// GoalAnnotation on a Machine says that Quorate began its update by a Runtime Extension, and to what: Goal.String. It stays until the
// update was seen to.
const GoalAnnotation = "controlplane.cluster.x-k8s.io/quorate-extension-update"

// updateMachine is the name of the hook among those that Cluster API has still to call.
const updateMachine = "UpdateMachine"

// Goal is what an update was begun for.
type Goal struct {
	// Version is the Machine's, and Hash identifies all that was wanted.
	Version, Hash string
}

// NewGoal returns the goal of an update: what the parts become, and the template that infrastructure machines are made from; nil: there is
// none. It is the same before and after the parts were written.
func NewGoal(desired Parts, template *unstructured.Unstructured) Goal {
	all := []any{desired.Machine.Spec.Version}
	if desired.Bootstrap != nil {
		all = append(all, specOf(desired.Bootstrap))
	}
	if template != nil {
		all = append(all, template.GetKind(), template.GetName(), templateSpec(template))
	}
	data, err := json.Marshal(all)
	if err != nil {
		panic(fmt.Sprintf("what is wanted of a machine as JSON: %v", err))
	}
	return Goal{Version: desired.Machine.Spec.Version, Hash: fmt.Sprintf("%x", sha256.Sum256(data))[:10]}
}

// String is the goal as GoalAnnotation has it.
func (g Goal) String() string { return g.Hash + " " + g.Version }

// GoalOf reads the goal of a Machine; false: Quorate began no update of it by an extension, or has seen to its end.
func GoalOf(m *clusterv1.Machine) (Goal, bool) {
	text, ours := m.Annotations[GoalAnnotation]
	hash, version, _ := strings.Cut(text, " ")
	return Goal{Version: version, Hash: hash}, ours
}

// IsMarked reports whether an object is marked for an update in place.
func IsMarked(o client.Object) bool {
	_, marked := o.GetAnnotations()[clusterv1.UpdateInProgressAnnotation]
	return marked
}

// IsPending reports whether Cluster API is to call UpdateMachine for a Machine.
func IsPending(m *clusterv1.Machine) bool {
	return slices.Contains(strings.Split(m.Annotations[runtimev1.PendingHooksAnnotation], ","), updateMachine)
}

// Mark marks an object for an update in place.
func Mark(o client.Object) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[clusterv1.UpdateInProgressAnnotation] = ""
	o.SetAnnotations(annotations)
}

// MarkPending has Cluster API call UpdateMachine for a Machine, beside the hooks that it is to call already. Whatever is marked must be
// written before.
func MarkPending(m *clusterv1.Machine) {
	if IsPending(m) {
		return
	}
	hooks := updateMachine
	if before := m.Annotations[runtimev1.PendingHooksAnnotation]; before != "" {
		hooks = before + "," + hooks
	}
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[runtimev1.PendingHooksAnnotation] = hooks
}

// Fact is what a decision may know of an update that Quorate began by an extension; false: it began none, or has seen to its end. The
// update is done when Cluster API has taken all marks off the Machine, as its last act, and reports it as updating no more. While an
// extension fails Cluster API asks it again and again, and the node may change at any moment: such an update is under way.
func Fact(m *clusterv1.Machine) (plan.Update, bool) {
	if _, ours := GoalOf(m); !ours {
		return plan.Update{}, false
	}
	updating := conditions.IsTrue(m, clusterv1.MachineUpdatingCondition)
	switch {
	case IsPending(m):
		return plan.Update{State: plan.UpdateUnderway, Message: progress(m)}, true
	case IsMarked(m):
		return plan.Update{State: plan.UpdateUnderway, Unfinished: true, Message: "not all of its objects are marked for the Runtime Extension"},
			true
	case updating:
		return plan.Update{State: plan.UpdateUnderway, Message: progress(m)}, true
	}
	return plan.Update{State: plan.UpdateDone, Message: "the Runtime Extension has finished"}, true
}

// longestProgress is how many bytes of an extension's words are quoted at most.
const longestProgress = 2048

// progress says how far Cluster API has come with an update.
func progress(m *clusterv1.Machine) string {
	c := conditions.Get(m, clusterv1.MachineUpdatingCondition)
	if c == nil || !conditions.IsTrue(m, c.Type) {
		return "Cluster API has not called the Runtime Extension yet, which it does with the feature gate InPlaceUpdates"
	}
	text := strings.ReplaceAll(plaintext.Quote(c.Message, longestProgress), "\n", "; ")
	if c.Reason == clusterv1.MachineInPlaceUpdateFailedReason {
		return "the Runtime Extension failed, and Cluster API asks it again: " + text
	}
	return text
}
