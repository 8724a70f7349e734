package sim

import (
	"math/rand"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// Data that differ without an alarm: a disk or memory changes those of one member, and only a comparison finds it. A person decides that
// the machine is replaced.

// Differ changes the data of the member of machine N.
const Differ Kind = "differ"

// differSalt keeps what is drawn of such data apart from what else is drawn of a seed.
const differSalt = 0xd1ff

// drawDiffering has the data of a member differ in some worlds.
func (s *Setup) drawDiffering(seed int64) {
	r := rand.New(rand.NewSource(seed ^ differSalt))
	if r.Intn(4) > 0 {
		return
	}
	var events []Event
	for range 1 + r.Intn(2) {
		e := Event{Kind: Differ, N: 1 + r.Intn(5), At: time.Duration(120+r.Intn(1800)) * time.Second, For: randomSpan(r)}
		events = append(events, e)
		if r.Intn(4) > 0 {
			events = append(events, Event{Kind: Mark, N: e.N, At: e.At + e.For})
		}
	}
	s.Script = inOrder(append(s.Script, events...)...)
}

// comparer is a world in which the data of members may differ.
type comparer struct{ w *World }

// befall changes the data of a member. It reports whether the event was that.
func (c comparer) befall(e Event) bool {
	if e.Kind != Differ {
		return false
	}
	if h := c.w.number(e.N); h != nil && h.member != nil && h.member.running && !h.member.learner && !h.member.removed {
		c.w.tell("the data of the member on %s are changed", h.name)
		h.member.differs = true
	}
	return true
}

// differing are the voters whose data were changed, and whether all others, which have the same, are most.
func (c comparer) differing() (of []*member, few bool) {
	voters := 0
	for _, m := range c.w.members {
		if m.learner {
			continue
		}
		voters++
		if m.differs {
			of = append(of, m)
		}
	}
	return of, 2*len(of) < voters
}

// add is what a comparison of the voters finds.
func (c comparer) add(e *plan.Etcd) {
	of, few := c.differing()
	switch {
	case len(of) == 0 || !e.Known:
	case !few && len(e.Members) > 1:
		e.Doubted = "most members of etcd do not have the same data"
	case few:
		for i := range e.Members {
			m := &e.Members[i]
			m.Differs = slices.ContainsFunc(of, func(o *member) bool { return o.id == m.ID })
		}
	}
}

// judgeJoin: no member joins that would copy the data of a leader whose data differ, nor beside one that nobody has replaced.
func (c comparer) judgeJoin(s plan.Step) {
	if c.holds() {
		c.w.blame("%s, and the data of a member differ, which it could copy, or which nobody has replaced", s)
	}
}

// holds: no other member may join because of data that differ.
func (c comparer) holds() bool {
	of, few := c.differing()
	if len(of) > 0 && !few {
		return len(c.w.members) > 1
	}
	return slices.ContainsFunc(of, func(m *member) bool {
		return m == c.w.leader || !m.host.deleting && m.host.marked == "" && !c.w.isReplaced(m.host) || !slices.Contains(c.w.hosts, m.host)
	})
}

// isWrong: most members have the same data, and one has others.
func (c comparer) isWrong(m *member) bool {
	_, few := c.differing()
	return m.differs && few
}

// isDecided reports whether a person must decide about a member whose data differ.
func (c comparer) isDecided() bool {
	of, _ := c.differing()
	return len(of) > 0
}
