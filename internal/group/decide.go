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
	"github.com/quorate/quorate/internal/core/check"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/group/status"
)

// CheckFailed is the reason to wait when a decision broke an invariant: a defect of ours.
const CheckFailed = "CheckFailed"

// Decide asks the rules, and has their answer checked. What breaks an invariant is not done: it is logged with
// all that it was made from, once, and waited instead. told is what the status says of the last decision. What the rules make of the
// facts is kept in the view, for all that follows.
func (t *Turn) Decide(ctx context.Context, told controlplanev1.PlanStatus) plan.Decision {
	assessed, d := plan.Judge(t.Facts)
	t.Assessed = assessed
	if err := check.Decision(t.Facts, d); err != nil {
		return refused(ctx, t.Facts, told, d, err)
	}
	return d
}

// refused waits instead of a decision that breaks an invariant.
func refused(ctx context.Context, o plan.Observed, told controlplanev1.PlanStatus, d plan.Decision, err error) plan.Decision {
	instead := plan.Decision{Step: plan.Step{Verb: plan.Wait}, Rule: d.Rule, Reason: CheckFailed,
		Message: fmt.Sprintf("%s is not safe: %v; this is a defect of Quorate", d.Step, err)}
	if told == status.PlanStatus(instead, nil) {
		return instead // it was logged when it was new
	}
	facts, failed := json.Marshal(o)
	if failed != nil {
		facts = []byte(failed.Error())
	}
	ctrl.LoggerFrom(ctx).Error(err, "A decision breaks an invariant and is not carried out: this is a defect of Quorate", "decision",
		d.String(), "observed", string(facts))
	return instead
}

// Announce tells of a decision once, when it is new, and of a failure when it is another one, by a log line and an
// event on the group's object. told is what the status said before. expected: the event of a step that was just done told of the decision;
// it gets none.
func Announce(
	ctx context.Context, recorder events.EventRecorder, on client.Object, told controlplanev1.PlanStatus, d plan.Decision, expected bool,
	failure error,
) {
	is := status.PlanStatus(d, failure)
	if told.Step != is.Step || told.Rule != is.Rule || told.Reason != is.Reason {
		ctrl.LoggerFrom(ctx).Info("Decided", "step", is.Step, "rule", d.Rule, "reason", d.Reason, "message", d.Message)
		kind := corev1.EventTypeNormal
		if d.Reason == CheckFailed {
			kind = corev1.EventTypeWarning
		}
		if !expected {
			recorder.Eventf(on, nil, kind, d.Reason, string(d.Step.Verb), "%s", observe.Cut(is.Step+": "+d.Message, status.LongestNote))
		}
	}
	if failure != nil && told.Message != is.Message {
		recorder.Eventf(on, nil, corev1.EventTypeWarning, "StepFailed", string(d.Step.Verb), "%s",
			observe.Cut(is.Step+": "+failure.Error(), status.LongestNote))
	}
}
