package main

import "fmt"

// A state is a group without time and chance. It is small and comparable, so that
// all that can be reached fit into a set.
type state struct {
	hosts  [most]host // the oldest first; those behind the last have stage none
	strays [2]stray   // members whose host is gone
	leader int8       // 1 + the index of a host; 0: none leads
	faults uint8      // how many have happened
	acts   uint8      // how many things a user has done
	spec   spec
	marks  mark // what is remembered of the group
	rec    recovery
	power  power
	past   uint32 // of another time; its number in times

	// A step that was decided and is not done yet, on a look that is age moves old.
	pending step
	age     uint8
}

// most is how many hosts there may be at once: five, one more, and two that go.
const most = 8

// mark is what is remembered of the group.
type mark uint8

const (
	initialised mark = 1 << iota
	rested           // all was as wanted once
	changed          // the spec was changed
	reverted         // and changed back
	forgotten        // status was lost: that a cluster was initialised is found again
	placeholder      // it takes etcd's learner slot
)

// spec is what does not follow the wanted spec yet.
type spec uint8

const (
	kubeadmOld spec = 1 << iota
	addonsOld
)

// stage is how far a host has come.
type stage uint8

const (
	none     stage = iota
	coming         // it boots, or waits for its turn
	added          // its member is in the list and has not started
	syncing        // its member runs as a learner
	voting         // its member votes, there is no Node
	settling       // its Node is registered, its components are not all there
	up
)

// A host is a machine with what runs on it.
type host struct {
	stage  stage
	update update
	is     flags
}

type flags uint16

const (
	first    flags = 1 << iota // it initialises the cluster
	dark                       // nothing of it answers, and it may return or not
	down                       // its etcd does not run, and may return or not
	stuck                      // it makes no progress any more
	removed                    // its member was removed
	outdated                   // it is of another spec than is wanted
	deleting
	due      // it waits for our hook
	released // our hook is gone
	marked   // a health check wants it replaced
	late     // it had minutes for what it has not done
	old      // it had seconds for it
	over     // it had half an hour to add its member
	forced   // somebody took its hook away
	held     // it was made ahead, and is held back
	hidden   // it has no Machine: the management cluster was restored from before
)

// A stray is a member whose host is gone.
type stray uint8

const (
	left   stray = 1 << iota // there is one
	learns                   // it is a learner
	named                    // it has started once
	oldOne                   // it has been left for a while
	torn                     // somebody took the hook of its machine away
)

func (h *host) has(f flags) bool { return h.is&f != 0 }
func (h *host) set(f flags)      { h.is |= f }
func (h *host) clear(f flags)    { h.is &^= f }

// member: there is one on the host.
func (g *group) member(h *host) bool {
	return !g.external && h.stage >= added && !h.has(removed)
}

func (g *group) voter(h *host) bool   { return g.member(h) && h.stage >= voting }
func (g *group) learner(h *host) bool { return g.member(h) && h.stage < voting }

// runs: the host's member runs.
func (g *group) runs(h *host) bool {
	return g.member(h) && h.stage >= syncing && !h.has(dark|down) && h.update != away
}

// votes reports whether a host's voter runs.
func (g *group) votes(h *host) bool { return g.voter(h) && g.runs(h) }

// delete marks a host as being deleted: what has no Node, or does not answer, is not drained.
func (g *group) delete(h *host) {
	h.set(deleting)
	if h.stage < settling || h.has(dark) || g.etcdOnly {
		h.set(due)
	}
}

// works: the host does all that it is there for.
func (g *group) works(h *host) bool {
	return h.stage == up && !h.has(dark) && h.update != away && (g.external || g.voter(h) && g.runs(h))
}

// serving: its API server may answer.
func (g *group) serving(h *host) bool {
	if g.etcdOnly {
		return g.votes(h)
	}
	return h.stage >= settling && !h.has(dark) && h.update != away && (g.external || g.voter(h) && g.runs(h))
}

// n is how many hosts there are.
func (s *state) n() int {
	for i := range s.hosts {
		if s.hosts[i].stage == none {
			return i
		}
	}
	return most
}

// each calls f for every host.
func (s *state) each(f func(i int, h *host)) {
	for i := range s.n() {
		f(i, &s.hosts[i])
	}
}

// count counts hosts.
func (s *state) count(is func(h *host) bool) int {
	n := 0
	s.each(func(_ int, h *host) {
		if is(h) {
			n++
		}
	})
	return n
}

// voters counts those that run, and all.
func (g *group) voters(s *state) (running, all int) {
	all = s.count(g.voter)
	running = s.count(g.votes)
	return running, all + s.strayVoters()
}

// strayVoters counts the voters whose host is gone.
func (s *state) strayVoters() int {
	n := 0
	for _, m := range s.strays {
		if m&left != 0 && m&learns == 0 {
			n++
		}
	}
	return n
}

func (g *group) quorum(s *state) bool {
	running, all := g.voters(s)
	return g.external || running > all/2
}

// tidy brings machines that have no Node into an order of their own, as if all that
// come were of one age: it keeps larger groups within bounds.
func (s *state) tidy() {
	n := s.n()
	for i := 1; i < n; i++ {
		for k := i; k > 0 && s.hosts[k].stage < settling && s.hosts[k-1].stage < settling && s.hosts[k].after(s.hosts[k-1]); k-- {
			s.hosts[k], s.hosts[k-1] = s.hosts[k-1], s.hosts[k]
			for _, at := range []*int8{&s.leader, &s.pending.on} {
				switch *at {
				case int8(k):
					*at = int8(k) + 1
				case int8(k) + 1:
					*at = int8(k)
				}
			}
		}
	}
}

// after orders hosts: those that have come further first.
func (h host) after(o host) bool { return h.stage > o.stage || h.stage == o.stage && h.is > o.is }

// findAgain is what the controller finds by itself after its status was lost: the cluster, as soon
// as it answers, or that nothing is left of it.
func (g *group) findAgain(s *state) {
	switch {
	case s.marks&forgotten == 0:
	case s.n() == 0:
		s.marks &^= forgotten | initialised
		s.leader, s.strays, s.spec = 0, [2]stray{}, 0
	case g.reachable(s):
		s.marks &^= forgotten
	}
}

// settle ends a leadership that cannot go on, and notes when all is as wanted for once.
func (g *group) settle(s *state) {
	if g.tidy {
		defer s.tidy()
	}
	if s.leader != 0 {
		if h := &s.hosts[s.leader-1]; !g.voter(h) || !g.runs(h) || !g.quorum(s) {
			s.leader = 0
		}
	}
	g.findAgain(s)
	inPast{g}.settle(s)
	if s.marks&rested == 0 && g.asWanted(s) {
		s.marks |= rested
	}
}

// drop takes a host away, and what it has not left in good order with it.
func (g *group) drop(s *state, i int) {
	h := s.hosts[i]
	copy(s.hosts[i:], s.hosts[i+1:])
	s.hosts[most-1] = host{}
	member := -1
	if g.member(&h) {
		m := h.stray()
		for k := range s.strays {
			if s.strays[k] == 0 {
				s.strays[k], member = m, k
				break
			}
		}
	}
	switch j := int8(i) + 1; {
	case s.leader == j:
		s.leader = 0
	case s.leader > j:
		s.leader--
	}
	s.pending.shift(i)
	s.rec.shift(i)
	inPast{g}.shift(s, i, &h, member)
	g.settle(s)
}

// stray is the member that a host leaves behind.
func (h *host) stray() stray {
	m := left
	if h.stage < voting {
		m |= learns
	}
	if h.stage >= syncing {
		m |= named
	}
	if h.has(forced) {
		m |= torn
	}
	return m
}

// String writes the hosts: o outdated, x dark, d its etcd is down, # stuck, ! being
// deleted (!! our hook is due, !- it is gone), M marked, ^ leads, - without member, ? unknown, and
// how far they have come; and strays.
func (s *state) String() string {
	text := ""
	s.each(func(i int, h *host) {
		text += fmt.Sprintf(" %d:%s", i+1, []string{"", "coming", "added", "syncing", "voting", "settling", "up"}[h.stage])
		for _, f := range []struct {
			is   flags
			text string
		}{{outdated, "o"}, {dark, "x"}, {down, "d"}, {stuck, "#"}, {deleting, "!"}, {due, "!"}, {released, "-"}, {marked, "M"},
			{removed, "(no member)"}, {late, "~"}, {over, "~"}, {forced, "f"}, {held, "h"}, {hidden, "?"}} {
			if h.has(f.is) {
				text += f.text
			}
		}
		text += []string{"", "u", "u-", "u+", "(updated)", "(update failed)"}[h.update]
		if int(s.leader) == i+1 {
			text += "^"
		}
	})
	for _, m := range s.strays {
		if m&left != 0 {
			text += fmt.Sprintf(" stray(learner %t, started %t)", m&learns != 0, m&named != 0)
		}
	}
	if s.marks&forgotten != 0 {
		text += " (status lost)"
	}
	if s.power&^(wanting|working) != 0 {
		text += fmt.Sprintf(" power(%b)", s.power)
	}
	if s.rec != (recovery{}) {
		text += fmt.Sprintf(" recovery(%b named %b off %b seeded %b)", s.rec.is, s.rec.named, s.rec.off, s.rec.seeded)
	}
	return "[" + text + " ]"
}
