package judge

import (
	"cmp"
	"math"
	"slices"

	"github.com/quorate/quorate/test/soak/history"
)

// leases: no client holds a lease while another one does.
func (t *trial) leases() {
	byLease := map[string][]history.Entry{}
	for _, e := range t.all {
		if e.Kind == history.Hold && e.Outcome == history.OK {
			if e.End == 0 {
				e.End = math.MaxInt64
			}
			byLease[e.Object] = append(byLease[e.Object], e)
		}
	}
	for _, lease := range sortedKeys(byLease) {
		holds := byLease[lease]
		slices.SortFunc(holds, func(a, b history.Entry) int { return cmp.Compare(a.Begin, b.Begin) })
		longest := holds[0]
		for _, h := range holds[1:] {
			if h.Begin < longest.End && h.Client != longest.Client {
				t.breaks(Holders, h.Begin, "%s held %s while %s did", h.Client, lease, longest.Client)
			}
			if h.End > longest.End {
				longest = h
			}
		}
	}
}

// kept: what was acknowledged is there in the end, unless a recovery gave it up.
func (t *trial) kept() {
	swaps, creates := t.last(SwapPrefix), t.last(CreatePrefix)
	there := map[string]int64{}
	for _, list := range []*history.Entry{swaps, creates} {
		if list == nil {
			continue
		}
		for _, item := range list.Items {
			there[item.Object] = item.Revision
		}
	}
	for _, e := range t.all {
		list := swaps
		if e.Kind == history.Create {
			list = creates
		} else if e.Kind != history.Swap {
			continue
		}
		if e.Outcome != history.OK || list == nil || e.End > list.Begin || t.givenUp(e.End) {
			continue
		}
		if there[e.Object] < e.Revision {
			t.verdict.Lost++
			t.breaks(Lost, e.End, "%s was acknowledged as revision %d and is %d in the end", e.Object, e.Revision, there[e.Object])
		}
	}
}

// members: all members that were compared hold the same.
func (t *trial) members() {
	var first *history.Entry
	for i := range t.all {
		e := &t.all[i]
		if e.Kind != history.Hash {
			continue
		}
		if first == nil {
			first = e
			continue
		}
		if e.Revision != first.Revision || e.Compacted != first.Compacted || e.Value != first.Value {
			t.breaks(Same, e.Begin, "%s has the hash %s at revision %d (compacted %d), and %s has %s at %d (%d)", e.Client, e.Value, e.Revision,
				e.Compacted, first.Client, first.Value, first.Revision, first.Compacted)
		}
	}
}
