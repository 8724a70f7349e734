package judge

import (
	"cmp"
	"slices"

	"github.com/quorate/quorate/test/soak/history"
)

// written is a write as somebody saw it.
type written struct {
	object, value string
	revision      int64
	at            int64
}

// writes returns every write of which the revision is known, by revision; more than one entry for a write that several saw.
func (t *trial) writes() []written {
	var all []written
	add := func(object, value string, revision, at int64) {
		if revision > 0 && object != "" {
			all = append(all, written{object, value, revision, at})
		}
	}
	for _, e := range t.all {
		switch e.Kind {
		case history.Swap, history.Create, history.Get:
			if e.Outcome == history.OK {
				add(e.Object, e.Value, e.Revision, e.End)
			}
		case history.Event:
			if e.Type != bookmark {
				add(e.Object, e.Value, e.Revision, e.Begin)
			}
		case history.List:
			for _, item := range e.Items {
				add(item.Object, item.Value, item.Revision, e.End)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b written) int { return cmp.Compare(a.revision, b.revision) })
	return all
}

// revisions: each revision belongs to one write, and after a recovery none is given that was given before.
func (t *trial) revisions() {
	all := t.writes()
	for i := 1; i < len(all); i++ {
		a, b := all[i-1], all[i]
		if a.revision == b.revision && (a.object != b.object || a.value != b.value) {
			t.breaks(Unique, max(a.at, b.at), "revision %d is %s = %q and %s = %q", a.revision, a.object, a.value, b.object, b.value)
		}
	}
	for _, r := range t.recovered {
		var highest int64
		for _, w := range all {
			if w.at <= r.Begin {
				highest = max(highest, w.revision)
			}
		}
		for _, e := range t.all {
			if (e.Kind == history.Swap || e.Kind == history.Create) && e.Outcome == history.OK && e.Begin >= r.End && e.Revision <= highest {
				t.breaks(Bump, e.End, "%s was written as revision %d after a recovery, and %d had been given before it", e.Object, e.Revision,
					highest)
				break
			}
		}
	}
}

// lists: a list is not older than what was acknowledged before it was asked for. A recovery may have lost that; what it raised the revision
// to is above it.
func (t *trial) lists() {
	type moment struct{ at, revision int64 }
	var acknowledged []moment
	for _, e := range t.all {
		if (e.Kind == history.Swap || e.Kind == history.Create) && e.Outcome == history.OK {
			acknowledged = append(acknowledged, moment{e.End, e.Revision})
		}
	}
	slices.SortFunc(acknowledged, func(a, b moment) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(acknowledged); i++ {
		acknowledged[i].revision = max(acknowledged[i].revision, acknowledged[i-1].revision)
	}
	for _, e := range t.all {
		if e.Kind != history.List || e.Outcome != history.OK {
			continue
		}
		i, _ := slices.BinarySearchFunc(acknowledged, e.Begin, func(m moment, at int64) int { return cmp.Compare(m.at, at) })
		if i > 0 && e.Revision < acknowledged[i-1].revision {
			t.breaks(Stale, e.End, "%s listed %s at revision %d after %d had been acknowledged", e.Client, e.Object, e.Revision,
				acknowledged[i-1].revision)
		}
	}
}
