package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/check"
	"github.com/quorate/quorate/internal/core/plan"
)

// A group is one kind of group that is explored, and how far. Its spec is changed once.
type group struct {
	replicas, surge int
	external        bool
	nodeOnly        bool // of the kind ControlPlane: of a machine only its Node is known, and one joins at a time
	eager           bool // machines are made ahead, and held back
	overlap         bool // a rollout does not wait for infrastructure to go
	etcdOnly        bool // of the kind EtcdCluster: machines have no Nodes, and learners are promoted by a step alone
	faults          int  // at most
	stale           int  // moves that a look may be old
	acts            int  // of a user at most: deletions, and losses of the status
	strips          bool // a user takes hooks away as well
	reverts         bool // the spec is changed back
	inPlace         plan.InPlace
	slow            bool // machines may take long to boot
	whole           bool // it is explored from when all is as wanted, and not from nothing
	tidy            bool // machines that come are of one age
	recovers        bool // a person asks for recoveries by a seed, and no spec is changed
	restores        bool // the management cluster is restored from a backup
	hibernates      bool // a person lets all machines go, and has them made again from a backup
	steady          bool // no other spec is wanted
	silent          bool // infrastructure does not tell that nothing is left of a machine
	times           *times
}

// String names the group.
func (g *group) String() string {
	kind := "stacked"
	if g.external {
		kind = "external"
	}
	if g.inPlace != plan.InPlaceNever {
		kind += ", updates in place " + string(g.inPlace)
	}
	text := fmt.Sprintf("%d replicas, %s, surge %d: faults %d, looks %d old, a user's acts %d", g.replicas, kind, g.surge, g.faults, g.stale,
		g.acts)
	for _, more := range []struct {
		is   bool
		text string
	}{{g.nodeOnly, "Nodes only"}, {g.etcdOnly, "etcd only"}, {g.eager, "made ahead"}, {g.overlap, "overlapping"}, {g.strips, "hooks stripped"},
		{g.reverts, "reverts"}, {g.slow, "slow boots"}, {g.whole, "from as wanted"}, {g.recovers, "recovered"}, {g.restores, "restored"},
		{g.hibernates, "hibernates"}, {g.steady, "the same spec"}, {g.silent, "silent infrastructure"}} {
		if more.is {
			text += ", " + more.text
		}
	}
	return text
}

// A search is the set of all states of a group that were reached.
type search struct {
	*group
	index   map[state]int32
	states  []state
	parents []int32
	fair    []int32 // what becomes of it when nothing goes wrong any more; -1: nothing
	wrong   []violation
	until   time.Time // then the search ends
	cut     bool      // it did
}

// A violation is an invariant that is broken on the way to a state or in it.
type violation struct {
	at   int32
	what string
}

// explore visits what a group may become. If its time ends before, what was reached by then was
// judged, but not how it would go on.
func explore(g *group, until time.Time) *search {
	g.times = newTimes()
	s := &search{group: g, index: map[state]int32{}, until: until}
	s.add(g.begins(), -1)
	for i := int32(0); int(i) < len(s.states); i++ {
		if i%1024 == 0 && time.Now().After(until) {
			s.cut = true
			return s
		}
		s.visit(i)
	}
	s.converge()
	return s
}

// begins is the state that a group is explored from.
func (g *group) begins() state {
	var s state
	if g.whole {
		for i := range g.replicas {
			s.hosts[i].stage = up
		}
		s.hosts[0].set(first)
		s.marks = initialised
		if !g.external {
			s.leader = 1
		}
		if g.hibernates {
			s.power = wanting | working
		}
		g.settle(&s)
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
		s.carryOut(i, t)
		return
	}
	o, d, acts := s.decide(i)
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
	if !s.awaitsPerson(&t, o, d) {
		s.blame(i, "nothing happens any more, and nobody is told what to decide: "+d.String())
	}
}

// carryOut adds what a state becomes by the step that was decided, and by others while it is not done yet.
func (s *search) carryOut(i int32, t state) {
	done := s.do(t, t.pending)
	s.add(done, i)
	if t.marks&initialised != 0 && s.quorum(&t) && !s.quorum(&done) && !isOfRecovery(t.pending.verb) {
		s.blame(i, "done, that costs the quorum")
	}
	if int(t.age) < s.stale {
		t.age++
		s.follow(i, s.nature(t))
		return
	}
	var next moves
	inPast{s.group}.moves(&next, t)
	s.follow(i, next)
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
func (s *search) decide(i int32) (plan.Observed, plan.Decision, bool) {
	t := s.states[i]
	o := s.look(&t)
	d := plan.Next(o)
	if err := check.Decision(o, d); err != nil {
		s.blame(i, fmt.Sprintf("Check refuses %s: %v", d, err))
	}
	t.pending = stepOf(d.Step)
	if s.restores {
		inPast{s.group}.place(&t, &t.pending, d.Step)
		inPast{s.group}.noteNumber(&t, o)
	}
	if what := s.judgeLook(&s.states[i], t.pending); what != "" {
		s.blame(i, fmt.Sprintf("%s: %s", d, what))
	}
	if t.pending.verb == nothing || t.pending.verb == unheard || (t.pending.verb == create || t.pending.verb == plantSeed) && t.n() == most {
		return o, d, false
	}
	s.fair[i] = s.add(t, i)
	return o, d, true
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
			s.blame(at, s.circle(at))
		}
		for _, i := range way {
			seen[i] = ends
		}
	}
}

// circle describes how a state becomes itself again.
func (s *search) circle(from int32) string {
	text := "it goes round in circles"
	for at, n := from, 0; n < 20; n++ {
		to := s.next(at)
		text += fmt.Sprintf("\n    %-60s %s", s.states[at].String()+inPast{s.group}.describe(&s.states[at]),
			s.between(s.states[at], &s.states[to]))
		if at = to; at == from {
			break
		}
	}
	return text
}

// number is what differs between violations of one kind.
var number = regexp.MustCompile(`\d+`)

// kinds returns the first violation of each kind, and how many there are of it.
func (s *search) kinds() (firsts []violation, counts map[string]int) {
	counts = map[string]int{}
	for _, v := range s.wrong {
		kind := kindOf(v.what)
		if counts[kind]++; counts[kind] == 1 {
			firsts = append(firsts, v)
		}
	}
	return firsts, counts
}

func kindOf(what string) string {
	if line, _, more := strings.Cut(what, "\n"); more {
		what = line
	}
	return number.ReplaceAllString(what, "N")
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
		fmt.Fprintf(out, "  %-60s %s\n", t.String()+inPast{s.group}.describe(t), what)
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
	return "* ?"
}
