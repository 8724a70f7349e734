package provider

import (
	"fmt"
	"time"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// Real infrastructure takes minutes to make a machine and to take it away, in which the machine that goes lives on. Local machines take
// that time when their annotations ask for it.

// delay is the duration that an annotation of a machine asks for; 0 without one.
func delay(lm *infrav1.LocalMachine, annotation string) (time.Duration, error) {
	text, asked := lm.Annotations[annotation]
	if !asked {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("annotation %s is %q, want a duration such as 90s or 2m", annotation, text)
	}
	return d, nil
}

// beforeMaking is why a machine is not made yet, and when to look again; nil: nothing asks for a delay any more.
func beforeMaking(lm *infrav1.LocalMachine) (time.Duration, *problem) {
	d, err := delay(lm, infrav1.ProvisioningDelayAnnotation)
	if err != nil {
		return 0, &problem{infrav1.SpecInvalidReason, err.Error()}
	}
	at := lm.CreationTimestamp.Add(d)
	left := time.Until(at)
	if d == 0 || left <= 0 {
		return 0, nil
	}
	return left, &problem{infrav1.DelayedReason, fmt.Sprintf("it is made at %s: annotation %s is %s", at.UTC().Format(time.TimeOnly),
		infrav1.ProvisioningDelayAnnotation, d)}
}

// beforeRemoval is why a machine that is being deleted lives on, and when to look again; nil: it may go. A value that cannot be
// read holds up no deletion.
func beforeRemoval(lm *infrav1.LocalMachine) (time.Duration, *problem) {
	at := removal(lm)
	left := time.Until(at)
	if left <= 0 {
		return 0, nil
	}
	return left, &problem{infrav1.DeletingReason, fmt.Sprintf("the machine lives until %s: annotation %s is %s",
		at.UTC().Format(time.TimeOnly), infrav1.DeletionDelayAnnotation, lm.Annotations[infrav1.DeletionDelayAnnotation])}
}

// removal is when a machine that is being deleted begins to go.
func removal(lm *infrav1.LocalMachine) time.Time {
	d, err := delay(lm, infrav1.DeletionDelayAnnotation)
	if err != nil {
		d = 0
	}
	return lm.DeletionTimestamp.Add(d)
}
