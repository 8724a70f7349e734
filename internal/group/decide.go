package group

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// CheckFailed is the reason to wait when a decision broke an invariant: a defect of ours.
const CheckFailed = "CheckFailed"

// The most bytes that the fields of status.plan, and the note of an event, may have.
const (
	longestStep    = 512
	longestMessage = 4096
	longestNote    = 1024
)

// Decide asks the rules, and has their answer checked. What breaks an invariant is not done: it is logged with
// all that it was made from, once, and waited instead. told is what the status says of the last decision. What the rules make of the
// facts is kept in the observation, for all that follows.
func (o *View) Decide(ctx context.Context, told controlplanev1.PlanStatus) plan.Decision {
	assessed, d := plan.Judge(o.Facts)
	o.Assessed = assessed
	if err := plan.Check(o.Facts, d); err != nil {
		return refused(ctx, o.Facts, told, d, err)
	}
	return d
}

// refused waits instead of a decision that breaks an invariant.
func refused(ctx context.Context, o plan.Observed, told controlplanev1.PlanStatus, d plan.Decision, err error) plan.Decision {
	instead := plan.Decision{Step: plan.Step{Verb: plan.Wait}, Rule: d.Rule, Reason: CheckFailed,
		Message: fmt.Sprintf("%s is not safe: %v; this is a defect of Quorate", d.Step, err)}
	if told == PlanStatus(instead, nil) {
		return instead // it was logged when it was new
	}
	facts, failed := json.Marshal(o)
	if failed != nil {
		facts = []byte(failed.Error())
	}
	ctrl.LoggerFrom(ctx).Error(err, "A decision breaks an invariant and is not carried out: this is a defect of Quorate", "decision", d.String(), "observed", string(facts))
	return instead
}

// PlanStatus is a decision as the status tells it, and how its step failed, if it did.
func PlanStatus(d plan.Decision, failure error) controlplanev1.PlanStatus {
	message := d.Message
	if failure != nil {
		message += "; the last try failed: " + failure.Error()
	}
	return controlplanev1.PlanStatus{
		Step:    Cut(d.Step.String(), longestStep),
		Rule:    d.Rule,
		Reason:  d.Reason,
		Message: Cut(message, longestMessage),
	}
}

// Cut returns a text, which may quote others, fit for a status or an event: redacted, and of at most so many bytes.
func Cut(text string, most int) string { return machine.Clean(text, most) }

// Announce tells of a decision once, when it is new, and of a failure when it is another one, by a log line and an
// event on the group's object. told is what the status said before. expected: the event of a step that was just done told of the decision; it gets none.
func Announce(ctx context.Context, recorder events.EventRecorder, on client.Object, told controlplanev1.PlanStatus, d plan.Decision, expected bool, failure error) {
	is := PlanStatus(d, failure)
	if told.Step != is.Step || told.Rule != is.Rule || told.Reason != is.Reason {
		ctrl.LoggerFrom(ctx).Info("Decided", "step", is.Step, "rule", d.Rule, "reason", d.Reason, "message", d.Message)
		kind := corev1.EventTypeNormal
		if d.Reason == CheckFailed {
			kind = corev1.EventTypeWarning
		}
		if !expected {
			recorder.Eventf(on, nil, kind, d.Reason, string(d.Step.Verb), "%s", Cut(is.Step+": "+d.Message, longestNote))
		}
	}
	if failure != nil && told.Message != is.Message {
		recorder.Eventf(on, nil, corev1.EventTypeWarning, "StepFailed", string(d.Step.Verb), "%s", Cut(is.Step+": "+failure.Error(), longestNote))
	}
}
