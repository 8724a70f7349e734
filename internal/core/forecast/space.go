package forecast

import (
	"slices"

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
	if s.Verb == plan.Compact {
		w.o.Etcd.Compacted, w.o.Etcd.CompactedAt = s.Revision, w.o.Now
	}
}
