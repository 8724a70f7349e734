package main

import (
	"fmt"
	"io"

	"github.com/quorate/quorate/internal/plan"
)

// A group is one kind of group that is explored, and how far. Its spec is changed once.
type group struct {
	replicas, surge int
	external        bool
	faults          int  // at most
	stale           int  // moves that a look may be old
	tidy            bool // machines that come are of one age
}

// String names the group.
func (g *group) String() string {
	kind := "stacked"
	if g.external {
		kind = "external"
	}
	return fmt.Sprintf("%d replicas, %s, surge %d, %d faults, looks %d old", g.replicas, kind, g.surge, g.faults, g.stale)
}

// A search is the set of all states of a group that were reached.
type search struct {
	*group
	index   map[state]int32
	states  []state
	parents []int32
	fair    []int32 // what becomes of it when nothing goes wrong any more; -1: nothing
	wrong   []violation
	room    int // for states; then the search gives up
}

// A violation is an invariant that is broken on the way to a state or in it.
type violation struct {
	at   int32
	what string
}

func explore(g *group, room int) *search {
	s := &search{group: g, index: map[state]int32{}, room: room}
	s.add(state{}, -1)
	for i := int32(0); int(i) < len(s.states) && len(s.states) <= room; i++ {
		s.visit(i)
	}
	if len(s.states) <= room {
		s.converge()
	}
	return s
}

// add enters a state into the set, and says where it is.
func (s *search) add(t state, from int32) int32 {
	if i, known := s.index[t]; known {
		return i
	}
	i := int32(len(s.states))
	s.index[t] = i
	s.states = append(s.states, t)
	s.parents = append(s.parents, from)
	s.fair = append(s.fair, -1)
	if what := s.judgeState(&t); what != "" {
		s.blame(i, what)
	}
	return i
}

func (s *search) blame(at int32, what string) { s.wrong = append(s.wrong, violation{at, what}) }

// visit adds all that a state may become.
func (s *search) visit(i int32) {
	t := s.states[i]
	if t.pending.verb != nothing {
		done := s.do(t, t.pending)
		s.add(done, i)
		if t.marks&initialised != 0 && s.quorum(&t) && !s.quorum(&done) {
			s.blame(i, "done, that costs the quorum")
		}
		if int(t.age) < s.stale {
			t.age++
			s.follow(i, s.nature(t))
		}
		return
	}
	d, acts := s.decide(i)
	next := s.nature(t)
	s.follow(i, next)
	if acts {
		return
	}
	if len(next) > 0 && next[0].fair {
		s.fair[i] = s.index[next[0].to]
		return
	}
	if s.asWanted(&t) {
		return
	}
	if m, can := s.help(t); can {
		s.fair[i] = s.add(m.to, i)
	} else if !s.beyondHelp(&t, d) {
		s.blame(i, "nothing happens any more, and nobody can help: "+d.String())
	}
}

func (s *search) follow(i int32, next moves) {
	for k := range next {
		s.add(next[k].to, i)
		if next[k].wrong != "" {
			s.blame(i, next[k].String()+": "+next[k].wrong)
		}
	}
}

// decide asks the rules, and reports whether they act.
func (s *search) decide(i int32) (plan.Decision, bool) {
	t := s.states[i]
	o := s.look(&t)
	d := plan.Next(o)
	if err := plan.Check(o, d); err != nil {
		s.blame(i, fmt.Sprintf("Check refuses %s: %v", d, err))
	}
	t.pending = stepOf(d.Step)
	if what := s.judgeLook(&s.states[i], t.pending); what != "" {
		s.blame(i, fmt.Sprintf("%s: %s", d, what))
	}
	if t.pending.verb == nothing || t.pending.verb == unheard || t.pending.verb == create && t.n() == most {
		return d, false
	}
	s.fair[i] = s.add(t, i)
	return d, true
}

// converge follows every state to where it ends once nothing goes wrong any more: what
// comes to no end is a violation. What cannot be helped was judged before.
func (s *search) converge() {
	const unseen, onWay, ends = 0, 1, 2
	seen := make([]byte, len(s.states))
	var way []int32
	for start := range s.states {
		at := int32(start)
		way = way[:0]
		for at >= 0 && seen[at] == unseen {
			seen[at] = onWay
			way = append(way, at)
			at = s.next(at)
		}
		if at >= 0 && seen[at] == onWay {
			s.blame(at, "it goes round in circles")
		}
		for _, i := range way {
			seen[i] = ends
		}
	}
}

// next is what a state becomes when nothing goes wrong any more.
func (s *search) next(i int32) int32 {
	if t := s.states[i]; t.pending.verb != nothing {
		return s.index[s.do(t, t.pending)]
	}
	return s.fair[i]
}

// tell writes how a state is reached.
func (s *search) tell(out io.Writer, v violation) {
	fmt.Fprintf(out, "VIOLATION (%s): %s\n", s.group, v.what)
	var way []int32
	for i := v.at; i >= 0; i = s.parents[i] {
		way = append(way, i)
	}
	for k := len(way) - 1; k >= 0; k-- {
		t := &s.states[way[k]]
		what := "nothing is there"
		if k+1 < len(way) {
			what = s.between(s.states[way[k+1]], t)
		}
		fmt.Fprintf(out, "  %-60s %s\n", t, what)
	}
}

// between says what made one state of another.
func (s *search) between(a state, b *state) string {
	if b.pending.verb != nothing && b.age == 0 {
		o := s.look(&a)
		return plan.Next(o).String()
	}
	if b.pending == (step{}) && a.pending.verb != nothing && s.do(a, a.pending) == *b {
		return "* that is done"
	}
	if a.pending.verb != nothing {
		a.age++
	}
	for _, m := range s.nature(a) {
		if m.to == *b {
			return "* " + m.String()
		}
	}
	if m, can := s.help(a); can && m.to == *b {
		return "* " + m.String()
	}
	return "* ?"
}
