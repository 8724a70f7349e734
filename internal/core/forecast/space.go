package forecast

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// relieve lets a step that ends the alarm NOSPACE take its effect. How much a compaction frees is not known: nothing.
func (w *world) relieve(s plan.Step) {
	for i := range w.o.Etcd.Members {
		e := &w.o.Etcd.Members[i]
		switch {
		case s.Verb == plan.Disarm:
			e.Alarms = slices.DeleteFunc(slices.Clone(e.Alarms), func(alarm string) bool { return alarm == plan.NoSpace })
		case s.Verb == plan.Defragment && e.ID == s.Member:
			e.Size, e.Defragmented = e.InUse, w.o.Now
		}
	}
	if s.Verb == plan.Disarm {
		w.o.Etcd.Disarmed, w.o.Etcd.StrayAlarms = w.o.Now, nil
	}
	if s.Verb == plan.Compact {
		w.o.Etcd.Compacted, w.o.Etcd.CompactedAt = s.Revision, w.o.Now
	}
}

// waitForMembers lets as much time pass, on both clocks, as members are left alone after one was defragmented. It reports whether it does.
func waitForMembers(w *world, d plan.Decision) bool {
	var last time.Time
	for _, e := range w.o.Etcd.Members {
		if e.Defragmented.After(last) {
			last = e.Defragmented
		}
	}
	waits := last.Add(plan.BetweenMembers).Sub(w.o.Now)
	if d.Step.Verb != plan.Nothing || waits <= 0 || d.Again != waits {
		return false
	}
	w.elapsed, w.o.Now = w.elapsed+waits, w.o.Now.Add(waits)
	return true
}
