package act

import (
	"context"
	"slices"
	"strings"
	"time"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// AddReplacement returns the annotation's value with one machine more, which is replaced now, and without those that do not count any more.
// The time is rounded up to a second: another may not be replaced before a day has passed.
func AddReplacement(noted []plan.Replacement, machine string, now time.Time) string {
	kept := slices.DeleteFunc(slices.Clone(noted), func(r plan.Replacement) bool {
		return r.Machine == machine || !now.Before(r.At.Add(plan.ReplacementPeriod))
	})
	kept = append(kept, plan.Replacement{Machine: machine, At: now.Add(time.Second - time.Nanosecond).Truncate(time.Second)})
	slices.SortFunc(kept, observe.CompareReplacements)
	entries := make([]string, 0, len(kept))
	for _, r := range kept {
		entries = append(entries, r.Machine+"="+r.At.UTC().Format(time.RFC3339))
	}
	return strings.Join(entries, ",")
}

// noteReplacement notes that a machine is replaced, or changed in place, before it is. A process that dies in between has counted one too
// many, never one too few.
func (t *Writer) noteReplacement(ctx context.Context, step plan.Step) error {
	if !step.Counts {
		return nil
	}
	value := AddReplacement(t.Facts.Group.Replacements, step.Machine, time.Now())
	return t.Annotate(ctx, map[string]string{controlplanev1.ReplacementsAnnotation: value})
}
