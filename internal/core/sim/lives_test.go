package sim

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
	"github.com/quorate/quorate/internal/core/plan"
)

// atOnce is how many lives run at the same time: they wait most of the time.
const atOnce = 12

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", fmt.Sprint(atOnce)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A life is a script for the world's etcd and for a real one.
type life struct {
	name  string
	steps []step
}

// cuts: members are cut off from others.
func (l life) cuts() bool {
	return slices.ContainsFunc(l.steps, func(s step) bool { return s.verb == "cut" })
}

// programs are those that a life is lived on, by the name of the test: the world's etcd is like each minor version that is supported.
func (l life) programs() map[string]func(testing.TB) string {
	return map[string]func(testing.TB) string{l.name + "-3.7": etcdtest.Newer, l.name: etcdtest.Middle, l.name + "-3.5": etcdtest.Older}
}

// step is one line of it: a verb, whom it is about, and whether it must be refused.
type step struct {
	line    string
	verb    string
	names   []string
	learner bool
	passes  time.Duration
	refused bool
}

func readLives(t *testing.T) []life {
	t.Helper()
	text, err := os.ReadFile("testdata/lives.txt")
	etcdtest.Must(t, err)
	var all []life
	for n, line := range strings.Split(string(text), "\n") {
		switch title, isLife := strings.CutPrefix(line, "life "); {
		case line == "" || strings.HasPrefix(line, "#"):
		case isLife:
			name, _, _ := strings.Cut(title, ":")
			all = append(all, life{name: name})
		default:
			s, err := readStep(strings.TrimSpace(line))
			if err != nil {
				t.Fatalf("lives.txt:%d: %v", n+1, err)
			}
			last := &all[len(all)-1]
			last.steps = append(last.steps, s)
		}
	}
	return all
}

func readStep(line string) (step, error) {
	words := strings.Fields(line)
	s := step{line: line, verb: words[0]}
	words, s.refused = cutLast(words[1:], "refused")
	var err error
	switch s.verb {
	case "pass":
		s.passes, err = time.ParseDuration(strings.Join(words, ""))
		return s, err
	case "add":
		var voter bool
		words, s.learner = cutLast(words, "learner")
		if words, voter = cutLast(words, "voter"); voter == s.learner {
			return s, fmt.Errorf("%q: want learner or voter", line)
		}
	case "begin", "start", "placeholder", "promote", "lead", "remove", "crash", "return", "freeze", "thaw", "cut", "heal":
	default:
		return s, fmt.Errorf("no such verb: %q", line)
	}
	s.names = words
	return s, nil
}

func cutLast(words []string, last string) ([]string, bool) {
	if n := len(words); n > 0 && words[n-1] == last {
		return words[:n-1], true
	}
	return words, false
}

// TestEtcdAgrees lives every life on the world's etcd and on a real one, and compares them after each step.
//
//quorate:shows etcd agrees each
func TestEtcdAgrees(t *testing.T) {
	etcdtest.Binary(t)
	var lives, steps, disagreements atomic.Int32
	t.Run("lives", func(t *testing.T) {
		for _, l := range readLives(t) {
			for name, program := range l.programs() {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					path := program(t)
					lives.Add(1)
					agreed := false
					defer func() {
						if !agreed {
							disagreements.Add(1)
						}
					}()
					x := newTwins(t, l.cuts(), path)
					for _, s := range l.steps {
						x.live(s)
						steps.Add(1)
					}
					agreed = !t.Failed()
				})
			}
		}
	})
	fmt.Printf("lives %d steps %d disagreements %d\n", lives.Load(), steps.Load(), disagreements.Load())
}

// twins are one cluster, as the world has it and as it is.
type twins struct {
	t     *testing.T
	begun time.Time
	world *World
	real  *cluster
}

func newTwins(t *testing.T, cut bool, path string) *twins {
	// The real one is newer than v3.6.11.
	return &twins{t: t, begun: time.Now(), world: New(Setup{Lenient: true}), real: newCluster(t, cut, path)}
}

// live does one step on both. What depends on time may change while the real one is
// asked: the world's answer may be that of before or that of after.
func (x *twins) live(s step) {
	x.t.Helper()
	x.tick()
	before, away := x.allows(s), x.real.away
	errReal := x.real.do(s)
	x.tick()
	after := x.allows(s)
	errWorld := after
	if (errReal == nil) != (after == nil) {
		errWorld = before
	}
	switch {
	case (errReal == nil) != (errWorld == nil):
		x.t.Fatalf("%q: the world says %v, etcd says %v", s.line, errWorld, errReal)
	case s.refused != (errReal != nil):
		x.t.Fatalf("%q: the script says refused=%t, etcd and the world say %v", s.line, s.refused, errReal)
	case s.verb == "remove" && errReal != nil && x.world.hasLeader() && !unanswered(errReal) &&
		!strings.HasSuffix(errReal.Error(), errWorld.Error()):
		x.t.Fatalf("%q is refused by the world for %q, by etcd for %q", s.line, errWorld, errReal)
	case errReal == nil:
		if s.verb == "heal" {
			s.names = away
		}
		x.apply(s)
	}
	x.compare(s)
}

// unanswered reports whether a host was too busy for etcd to say in time why it refuses. The second text is that of our own client, once a
// try was not answered.
func unanswered(err error) bool {
	return strings.HasSuffix(err.Error(), context.DeadlineExceeded.Error()) || strings.Contains(err.Error(), ": no answer within ")
}

// tick sets the world's clock to what really passed.
func (x *twins) tick() {
	x.world.now = x.world.start.Add(time.Since(x.begun))
	x.world.depose()
}

// allows asks the world's gates. An error is a refusal.
func (x *twins) allows(s step) error {
	switch w := x.world; s.verb {
	case "add", "placeholder":
		if !w.mayAdd(s.verb == "placeholder" || s.learner) {
			return errors.New("no new member now")
		}
	case "promote":
		if !w.mayPromote(x.member(s.names[0])) {
			return errors.New("not to be promoted now")
		}
	case "lead":
		return w.mayLead(x.member(s.names[0]))
	case "remove":
		if m := x.member(s.names[0]); m != nil {
			return w.mayRemove(m)
		}
	}
	return nil
}

// apply changes the world.
func (x *twins) apply(s step) {
	x.t.Helper()
	w := x.world
	for _, name := range s.names {
		switch m := x.member(name); s.verb {
		case "begin":
			w.run(w.add(x.host(name), false))
		case "add":
			w.add(x.host(name), s.learner)
		case "placeholder":
			etcdtest.Must(x.t, w.addPlaceholder())
			w.members[len(w.members)-1].host.name = name
		case "start", "return", "thaw", "heal":
			if m != nil {
				w.run(m)
			}
		case "crash", "cut":
			w.stop(m)
		case "freeze":
			w.hang(m)
		case "promote":
			m.learner = false
		case "lead":
			etcdtest.Must(x.t, w.reconfigure(plan.Step{Verb: plan.MoveLeader, Member: m.id}))
		case "remove":
			if m != nil {
				etcdtest.Must(x.t, w.reconfigure(plan.Step{Verb: plan.RemoveMember, Member: m.id}))
			}
		}
	}
}

func (x *twins) host(name string) *host {
	h := &host{name: name, stage: up}
	x.world.hosts = append(x.world.hosts, h)
	return h
}

// member finds one that is in the list.
func (x *twins) member(name string) *member {
	at := slices.IndexFunc(x.world.members, func(m *member) bool { return m.host.name == name })
	if at < 0 {
		return nil
	}
	return x.world.members[at]
}

// compare waits until both are the same: elections and news take their time. Who is elected
// is chance: the world takes the choice over, if its own rules allow that member.
func (x *twins) compare(s step) {
	x.t.Helper()
	etcdtest.Eventually(x.t, fmt.Sprintf("%q: both agree", s.line), func() (string, bool) {
		x.tick()
		is := x.real.look()
		open := x.world.leader == nil
		if m := x.member(is.leader); open && m != nil && slices.Contains(x.world.electable(), m) {
			x.world.leader = m
		}
		want, elected := x.look(), x.world.leader != nil || !x.world.hasQuorum()
		agreed := elected && want.String() == is.String()
		if open && !agreed {
			x.world.leader = nil // the election may not be over
		}
		return fmt.Sprintf("\nworld: %s\netcd:  %s", want, is), agreed
	})
	x.tick()
	voter, ok := x.voter()
	if !ok {
		return
	}
	if err := x.real.write(voter, x.world.hasLeader()); (err == nil) != x.world.hasLeader() {
		x.t.Fatalf("%q: the world says quorum %t, and a write through %s says %v", s.line, x.world.hasLeader(), voter, err)
	}
	for _, name := range x.real.away {
		if m := x.member(name); m != nil && x.real.write(name, false) == nil {
			x.t.Fatalf("%q: a write through %s, which is cut off, was accepted", s.line, name)
		}
	}
	x.t.Logf("%5.1f s %-24s %s", time.Since(x.begun).Seconds(), s.line, x.look())
}

// look is the world as it can be compared.
func (x *twins) look() view {
	v := view{members: map[string]string{}}
	if !slices.ContainsFunc(x.world.members, func(m *member) bool { return m.running && !m.learner }) {
		return v // nobody tells a list
	}
	v.agreed = x.world.hasLeader()
	for _, m := range x.world.members {
		health := plan.Unhealthy
		switch {
		case m.name == "":
			health = plan.Unknown
		case m.running && x.world.hasLeader():
			health = plan.Healthy
		}
		v.add(m.host.name, m.learner, m.name != "", m == x.world.leader, health)
		if m.running || m.hung {
			v.connected = append(v.connected, m.host.name)
		}
	}
	slices.Sort(v.connected)
	return v
}

// voter is one through which a write can go, if the world is right. One that never started, or does not run, is none.
func (x *twins) voter() (string, bool) {
	for _, m := range x.world.members {
		if m.running && !m.learner {
			return m.host.name, true
		}
	}
	return "", false
}

// view is what both are compared by.
type view struct {
	members   map[string]string
	leader    string
	agreed    bool
	connected []string // whom those who run are connected to
}

func (v *view) add(name string, learner, started, leads bool, health plan.Health) {
	text := name
	if leads {
		text, v.leader = text+"^", name
	}
	if learner {
		text += " learner"
	}
	if !started {
		text += " never started"
	}
	switch health {
	case plan.Unknown:
		text += " unknown"
	case plan.Unhealthy:
		text += " unhealthy"
	}
	v.members[name] = text
}

// String writes the view in one line.
func (v view) String() string {
	var members []string
	for _, text := range v.members {
		members = append(members, text)
	}
	slices.Sort(members)
	return fmt.Sprintf("[%s] quorum=%t connected=%v", strings.Join(members, ", "), v.agreed, v.connected)
}
