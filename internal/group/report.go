package group

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/group/status"
)

// report tells what was seen, decided and done: on the Machines, on the control
// plane, by an event, a log line and metrics. What has not changed is not written again, and
// what could not be kept up does not stop the report.
func (t *Turn) report(ctx context.Context, d plan.Decision, failure error) error {
	var kept error
	if !t.Facts.Group.Paused {
		if err := t.Note(ctx, d); err != nil {
			return err
		}
		if err := t.reportMachines(ctx, d, failure); err != nil {
			return err
		}
		kept = t.Keep(ctx)
	}
	says := status.Of(t.View, t.Kind, d, failure)
	after := says.Group()
	Announce(ctx, t.Recorder, t.Object, *t.Kind.Status(t.Object).Plan, d, t.past.stepped && d.Rule == plan.SettleRule, failure)
	t.past.stepped = d.Step.Acts() && failure == nil
	t.metrics().Stands(t.Key(), t.stands(says, t.Kind.Status(after).CertificateEnds()))
	t.followEpisodes(after, d)
	// After a step the next turn comes at once, and writes what both have to say.
	if d.Step.Acts() && failure == nil || equality.Semantic.DeepEqual(t.Object, after) || t.mayWait("", t.Object, after) {
		return kept
	}
	err := t.ChangeStatus(ctx, t.Object, after)
	if err != nil {
		return errors.Join(kept, fmt.Errorf("writing the status of %s: %w", t.Title(), err))
	}
	t.noteTold("")
	t.Memory.Writes.ExpectObject(after)
	return kept
}

// reportMachines writes the conditions of the Machines. One that is gone, or has changed where that matters,
// since it was read is left to the next turn, which comes soon.
func (t *Turn) reportMachines(ctx context.Context, d plan.Decision, failure error) error {
	t.forgetTold()
	says := status.Of(t.View, t.Kind, d, failure)
	for _, on := range t.Machines {
		before, after := on.Machine, says.Machine(on)
		on.Machine = after
		if equality.Semantic.DeepEqual(before.Status, after.Status) || t.mayWait(before.Name, before, after) {
			continue
		}
		err := t.ApplyConditions(ctx, before, after)
		if t.LookAgain(err) != nil {
			return fmt.Errorf("writing the conditions of Machine %s: %w", before.Name, err)
		}
		if err != nil {
			continue
		}
		t.noteTold(after.Name)
		t.Memory.Writes.Expect(observe.Write{Machine: after.Name, UID: after.UID, Version: after.ResourceVersion, Wrote: after})
	}
	return nil
}
