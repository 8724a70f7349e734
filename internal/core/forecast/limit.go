package forecast

import (
	"slices"

	"github.com/quorate/quorate/internal/core/plan"
)

// count notes that a machine is replaced, or changed in place.
func (w *world) count(s plan.Step) {
	if !s.Counts {
		return
	}
	g := &w.o.Group
	g.Replacements = slices.DeleteFunc(g.Replacements, func(r plan.Replacement) bool { return r.Machine == s.Machine })
	g.Replacements = append(g.Replacements, plan.Replacement{Machine: s.Machine, At: w.o.Now})
	w.counted[s.Machine] = w.elapsed
}

// waitForLimit lets as much time pass, on both clocks, as the limit of replacements holds the next one. It reports whether it does.
func (w *world) waitForLimit(d plan.Decision) bool {
	if d.Reason != plan.ReplacementLimit {
		return false
	}
	at := plan.NextReplacement(w.o)
	due := w.elapsed
	for _, r := range w.o.Group.Replacements {
		if r.At.Add(plan.ReplacementPeriod).Equal(at) {
			due = max(due, w.counted[r.Machine]+plan.ReplacementPeriod)
		}
	}
	w.held += due - w.elapsed
	w.elapsed, w.o.Now = due, at
	return true
}
