package inplace

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/upgrade/updatehooks"
)

// What Runtime Extensions of others have to do with a group's machines. Package updatehooks says what each is.
type (
	// Parts are the objects that a machine consists of.
	Parts = updatehooks.Parts
	// Asker asks Runtime Extensions of others.
	Asker = updatehooks.Asker
	// Question is one question about a machine.
	Question = updatehooks.Question
	// Answer is what an extension says of a machine.
	Answer = updatehooks.Answer
	// Answers are what extensions said of a group's machines.
	Answers = updatehooks.Answers
	// ExtensionGoal is what an update by an extension was begun for.
	ExtensionGoal = updatehooks.Goal
)

const (
	// GoalAnnotation on a Machine says that its update by an extension was begun, and to what.
	GoalAnnotation = updatehooks.GoalAnnotation
	// AnswerTimeout is how long asking may take.
	AnswerTimeout = updatehooks.AnswerTimeout
)

// ExtensionFact is what a decision may know of a Machine's update by an extension; false: none was begun, or it was seen to.
func ExtensionFact(m *clusterv1.Machine) (plan.Update, bool) { return updatehooks.Fact(m) }

// ExtensionGoalOf is what a Machine's update by an extension was begun for; false: none was begun, or it was seen to.
func ExtensionGoalOf(m *clusterv1.Machine) (ExtensionGoal, bool) { return updatehooks.GoalOf(m) }

// NewExtensionGoal returns the goal of an update: what the parts become, and the template of infrastructure machines; nil: there is none.
func NewExtensionGoal(desired Parts, template *unstructured.Unstructured) ExtensionGoal {
	return updatehooks.NewGoal(desired, template)
}

// Merge returns an infrastructure machine that was made from one template as it is once it follows another.
func Merge(machine, was, want *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return updatehooks.Merge(machine, was, want)
}

// Covers returns the fields of an infrastructure machine that an answer does not bring to what is wanted; none: it covers all.
func Covers(patched, desired *unstructured.Unstructured) []string {
	return updatehooks.Covers(patched, desired)
}

// IsMarked reports whether an object is marked for an update by an extension.
func IsMarked(o client.Object) bool { return updatehooks.IsMarked(o) }

// IsPending reports whether Cluster API is to call an extension for a Machine.
func IsPending(m *clusterv1.Machine) bool { return updatehooks.IsPending(m) }

// Mark marks an object for an update by an extension.
func Mark(o client.Object) { updatehooks.Mark(o) }

// MarkPending has Cluster API call an extension for a Machine.
func MarkPending(m *clusterv1.Machine) { updatehooks.MarkPending(m) }
