package status

import (
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// The most bytes that the fields of status.plan, and the note of an event, may have.
const (
	longestStep    = 512
	longestMessage = 4096
	LongestNote    = 1024
)

// PlanStatus is a decision as the status tells it, and how its step failed, if it did.
func PlanStatus(d plan.Decision, failure error) controlplanev1.PlanStatus {
	message := d.Message
	if failure != nil {
		message += "; the last try failed: " + failure.Error()
	}
	return controlplanev1.PlanStatus{
		Step:    observe.Cut(d.Step.String(), longestStep),
		Rule:    d.Rule,
		Reason:  d.Reason,
		Message: observe.Cut(message, longestMessage),
	}
}
