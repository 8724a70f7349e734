package judge

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quorate/quorate/test/soak/history"
)

// The types of events that are told apart.
const (
	bookmark = "BOOKMARK"
	deleted  = "DELETED"
)

// follower is a client that lists and watches, while its entries are gone through.
type follower struct {
	t    *trial
	name string
	// base is the revision from which it must deliver each write, position the last that it delivered, began whether it has listed.
	base, position int64
	began          bool
	// delivered are the revisions since base.
	delivered map[int64]bool
	// expired are the moments at which its revision was gone.
	expired []int64
	known   []written
}

// watches judges each client that watches.
func (t *trial) watches() {
	followers := map[string]*follower{}
	known := slices.DeleteFunc(t.writes(), func(w written) bool { return !strings.HasPrefix(w.object, SwapPrefix) })
	known = slices.CompactFunc(known, func(a, b written) bool { return a.revision == b.revision })
	for _, e := range t.all {
		if e.Kind == history.Watch && followers[e.Client] == nil {
			followers[e.Client] = &follower{t: t, name: e.Client, known: known}
		}
	}
	for _, e := range t.all {
		if f := followers[e.Client]; f != nil {
			f.goOn(e)
		}
	}
	for _, name := range sortedKeys(followers) {
		followers[name].ends()
	}
}

// goOn takes the next entry of the client.
func (f *follower) goOn(e history.Entry) {
	switch e.Kind {
	case history.List:
		if e.Outcome != history.OK {
			return
		}
		if f.began && e.Revision < f.position {
			f.t.breaks(Back, e.End, "%s listed revision %d after it had seen %d", f.name, e.Revision, f.position)
		}
		f.covers()
		f.base, f.position, f.began, f.delivered = e.Revision, e.Revision, true, map[int64]bool{}
	case history.Watch:
		if e.Revision != f.position {
			f.t.breaks(Back, e.Begin, "%s watches from revision %d and was at %d", f.name, e.Revision, f.position)
		}
	case history.Expired:
		f.goneAt(e)
	case history.Event:
		f.delivers(e)
	}
}

// delivers takes an event.
func (f *follower) delivers(e history.Entry) {
	switch {
	case e.Type == deleted:
		f.t.breaks(Lost, e.Begin, "%s saw a deletion of %s, and no client deleted it", f.name, e.Object)
	case e.Type == bookmark && e.Revision >= f.position:
	case f.delivered[e.Revision] && e.Type != bookmark:
		f.t.breaks(Duplicate, e.Begin, "%s saw revision %d of %s twice", f.name, e.Revision, e.Object)
	case e.Revision <= f.position:
		f.t.breaks(Back, e.Begin, "%s saw revision %d after %d", f.name, e.Revision, f.position)
	}
	if e.Type != bookmark && f.delivered != nil {
		f.delivered[e.Revision] = true
	}
	f.position = max(f.position, e.Revision)
}

// goneAt takes the answer that the revision is gone: once after each recovery.
func (f *follower) goneAt(e history.Entry) {
	since := int64(-1)
	if len(f.expired) > 0 {
		since = f.expired[len(f.expired)-1]
	}
	f.expired = append(f.expired, e.Begin)
	if !slices.ContainsFunc(f.t.recovered, func(r history.Entry) bool { return r.Begin > since && r.Begin <= e.Begin }) {
		f.t.breaks(Gone, e.Begin, "the revision %d of %s was gone, and nothing had been recovered: %s", e.Revision, f.name, e.Error)
	}
}

// covers: since its list the client saw each write up to where it is.
func (f *follower) covers() {
	from, _ := slices.BinarySearchFunc(f.known, f.base+1, func(w written, r int64) int { return cmp.Compare(w.revision, r) })
	for _, w := range f.known[from:] {
		if w.revision > f.position {
			break
		}
		if f.began && !f.delivered[w.revision] {
			f.t.breaks(Gap, w.at, "%s never saw revision %d of %s", f.name, w.revision, w.object)
		}
	}
}

// ends: the client has seen the last write.
func (f *follower) ends() {
	f.covers()
	if last := f.t.last(SwapPrefix); last != nil {
		for _, item := range last.Items {
			if item.Revision > f.position {
				f.t.breaks(Behind, last.End, "%s is at revision %d, and %s has %d", f.name, f.position, item.Object, item.Revision)
				return
			}
		}
	}
}
