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

// waitForWindow lets as much time pass, on both clocks, as it takes until changes may begin. It reports whether it does. When they may not
// any more is not forecast: one window is known.
func (w *world) waitForWindow(d plan.Decision) bool {
	window := &w.o.Group.Window
	if d.Reason != plan.OutsideWindow || window.Opens.IsZero() {
		return false
	}
	waits := max(0, window.Opens.Sub(w.o.Now))
	w.held += waits
	w.heldBy = d.Reason
	w.elapsed += waits
	w.o.Now = w.o.Now.Add(waits)
	*window = plan.Window{}
	return true
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
	w.heldBy = d.Reason
	w.elapsed, w.o.Now = due, at
	return true
}
