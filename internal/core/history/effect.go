package history

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// effect is what a step is for, which may come later than its write.
type effect int

const (
	immediate effect = iota
	machineComplete
	machineGone
	updateRecorded
)

// effect is what the entry's step is for.
func (e Entry) effect() effect {
	switch e.Verb {
	case plan.Create, plan.StartBootstrap:
		return machineComplete
	case plan.Delete, plan.ReleaseHook:
		return machineGone
	case plan.UpdateInPlace:
		return updateRecorded
	}
	return immediate
}

// awaits reports whether the entry's step was done, and its effect was not seen yet.
func (e Entry) awaits(what effect) bool {
	return e.Outcome == Done && e.Took.Duration == 0 && e.Machine != "" && e.effect() == what
}

// Complete fills in how long steps took whose effects are seen in facts that are newer than they. While there
// was no look, as during a pause, a step counts as taking until the next look. assessed is what the rules make of the facts.
func (r *Record) Complete(o plan.Observed, assessed plan.Assessment) {
	if !slices.ContainsFunc(r.Entries, func(e Entry) bool { return e.awaits(machineComplete) || e.awaits(machineGone) }) {
		return
	}
	for i := range r.Entries {
		e := &r.Entries[i]
		if !e.Time.Before(o.Now) {
			continue
		}
		gone := !slices.ContainsFunc(o.Machines, func(m plan.Machine) bool { return m.Name == e.Machine })
		if e.awaits(machineComplete) && assessed.Machine(e.Machine).Complete() || e.awaits(machineGone) && gone {
			e.Took = rounded(o.Now.Sub(e.Time))
		}
	}
}

// endUpdate says how long the newest update in place of a machine took, which an entry records.
func (r *Record) endUpdate(by Entry) {
	for i := len(r.Entries) - 1; i >= 0; i-- {
		if e := &r.Entries[i]; e.Machine == by.Machine && e.awaits(updateRecorded) {
			e.Took = rounded(by.Time.Add(by.Duration.Duration).Sub(e.Time))
			return
		}
	}
}

// Durations are the medians of how long steps took, by their verbs. That of Create is from the creation of a machine until it was
// complete, without machines that were made ahead. That of Delete is from the request until it was gone; of ReleaseHook from the hook's
// release; of UpdateInPlace until it was recorded. A verb of which no step is known to have had its effect is absent.
func Durations(entries []Entry) map[plan.Verb]time.Duration {
	all := map[plan.Verb][]time.Duration{}
	for _, e := range entries {
		if e.Took.Duration > 0 && !e.Ahead {
			all[e.Verb] = append(all[e.Verb], e.Took.Duration)
		}
	}
	medians := map[plan.Verb]time.Duration{}
	for verb, took := range all {
		slices.Sort(took)
		half := len(took) / 2
		medians[verb] = (took[half] + took[(len(took)-1)/2]) / 2
	}
	return medians
}
