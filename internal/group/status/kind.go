package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/group/observe"
)

// Kind is what one kind of groups has of its own in what is reported.
type Kind interface {
	// Status points to what all kinds' statuses have.
	Status(object observe.Object) observe.Status
	// Conditions and MachineConditions are those that only this kind has.
	Conditions(t *observe.View) []metav1.Condition
	MachineConditions(t *observe.View, m *observe.Machine) []metav1.Condition
	// Describe completes the status of an object.
	Describe(t *observe.View, object observe.Object)
}
