package sim

import (
	"fmt"
	"math/rand"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What differs where a person decides what no rule can: in time, late, for facts that have changed, or about something else than was shown.
const (
	ReadChoices Kind = "read choices" // a person looks at what can be decided
	Decide      Kind = "decide"       // the person decides it as it was read; N 1: about another voter; N 2: about every voter
)

// decisionSalt keeps what is drawn of decisions apart from what else is drawn of a seed.
const decisionSalt = 0xdec1de

// deciding is what people read and decided.
type deciding struct {
	read    []plan.Offer
	seen    sighted            // what the person saw who read them
	choices []plan.Choice      // on the group's object
	truly   map[string]sighted // by digest: what a person decided who was shown it
}

// decider is a world in which people decide.
type decider struct{ *World }

// sighted is what a person saw: the target, the voters, and the machines.
type sighted struct{ target, voters, machines string }

// sightOf is what a look shows of what a decision may rest on: of the machines those that a person waits for.
func (w decider) sightOf(o plan.Observed) sighted {
	var voters, machines []string
	for _, e := range o.Etcd.Members {
		if !e.Learner {
			voters = append(voters, e.ID)
		}
	}
	for _, m := range o.Machines {
		if h := w.named(m.Name); h == nil || !h.unawaited {
			machines = append(machines, m.Name)
		}
	}
	slices.Sort(voters)
	slices.Sort(machines)
	return sighted{voters: fmt.Sprint(voters), machines: fmt.Sprint(machines)}
}

// drawDecisions has people decide about voters whose machine is not known any more: most as they should, some late or wrongly.
func (s *Setup) drawDecisions(seed int64, after Kind) {
	r := rand.New(rand.NewSource(seed ^ decisionSalt))
	if s.Sturdy || r.Intn(3) == 0 {
		return
	}
	for range len(s.Remains) * 2 { // the rules wait for what never goes until a person decides
		at := time.Duration(r.Intn(7200)) * time.Second
		decides := Event{At: at + time.Duration(r.Intn(60))*time.Second, Kind: Decide, N: pick(r, 0, 0, 0, 1)}
		s.Script = inOrder(append(s.Script, Event{At: at, Kind: ReadChoices}, decides)...)
	}
	for _, e := range slices.Clone(s.Script) {
		if e.Kind != after {
			continue
		}
		for range 1 + r.Intn(3) {
			read := e.At + time.Duration(5+r.Intn(240))*time.Second
			late := time.Duration(r.Intn(pick(r, 20, 20, 600))) * time.Second
			decides := Event{At: read + late, Kind: Decide, N: pick(r, 0, 0, 0, 1, 2)}
			s.Script = inOrder(append(s.Script, Event{At: read, Kind: ReadChoices}, decides)...)
		}
	}
}

// befall lets a person look, or decide. It reports whether the event was one of these.
func (w decider) befall(e Event) bool {
	switch e.Kind {
	case ReadChoices:
		if len(w.looks) > 0 {
			o := w.looks[len(w.looks)-1].Observed
			w.decided.read, w.decided.seen = plan.Offers(o), w.sightOf(o)
		}
	case Decide:
		for _, f := range w.decided.read {
			w.decide(f.Choice, e.N)
		}
	default:
		return false
	}
	return true
}

// decide writes down what a person decides: of what was read, or of something else by a digest that is not its own.
func (w decider) decide(c plan.Choice, wrongly int) {
	if c.Kind == plan.ForgetMachine {
		w.forgetMachine(c, wrongly)
		return
	}
	if wrongly == 0 {
		seen := w.decided.seen
		seen.target = c.Target
		w.decided.truly[c.Digest] = seen
		w.write(c)
		return
	}
	for _, m := range w.members {
		if m.id == c.Target || m.learner {
			continue
		}
		w.write(plan.Choice{Kind: c.Kind, Target: m.id, Digest: c.Digest})
		if wrongly == 1 {
			return
		}
	}
}

// forgetMachine writes down that a person waits no longer for a machine: the one that was read, or others, by a digest that is not theirs.
func (w decider) forgetMachine(c plan.Choice, wrongly int) {
	for _, h := range w.hosts {
		switch {
		case (h.name == c.Target) != (wrongly == 0):
		case wrongly == 0:
			seen := w.decided.seen
			seen.target = c.Target
			w.decided.truly[c.Digest] = seen
			w.write(c)
		case h.deleting:
			w.write(plan.Choice{Kind: c.Kind, Target: h.name, Digest: c.Digest})
		}
	}
}

// awaited counts the hosts but those that a person decided to wait for no longer.
func (w decider) awaited() int { return w.count(func(h *host) bool { return !h.unawaited }) }

// hasAwaited: a machine is there and has its labels, and no person decided to wait for it no longer.
func (w decider) hasAwaited() bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool { return h.hidden.IsZero() && !h.unawaited })
}

// write writes a decision on the group's object, in place of one with the same digest.
func (w decider) write(c plan.Choice) {
	w.tell("somebody decides: %s %s", c.Kind, c.Target)
	w.drop(c.Digest)
	w.decided.choices = append(w.decided.choices, c)
	w.mark()
}

// mark marks the hosts that a person decided to wait for no longer, by a decision about that very one that is still there, or declared off
// in a recovery.
func (w decider) mark() {
	for _, h := range w.hosts {
		leaves := h.deleting && !h.hook && (h.member == nil || h.member.removed)
		chosen := slices.ContainsFunc(w.decided.choices, func(c plan.Choice) bool {
			return c.Kind == plan.ForgetMachine && c.Target == h.name && w.decided.truly[c.Digest].target == h.name
		})
		h.unawaited = leaves && (chosen || (recovering{w.World}).isOff(h.name))
	}
}

// drop takes a decision off the group's object.
func (w decider) drop(digest string) {
	w.decided.choices = slices.DeleteFunc(slices.Clone(w.decided.choices), func(c plan.Choice) bool { return c.Digest == digest })
	w.mark()
}

// isDecided: a person decided that a voter leaves, and saw the voters and the machines that are there now.
func (w decider) isDecided(m *member) bool {
	now := w.sightOf(w.Observe())
	now.target = m.id
	for _, c := range w.decided.choices {
		if seen, truly := w.decided.truly[c.Digest]; truly && c.Target == m.id && seen == now {
			return true
		}
	}
	return false
}

// mayGo: a voter is on a host whose Machine cannot be seen, and a person decided, for what is there now, that it leaves.
func (w decider) mayGo(m *member) bool {
	return !m.learner && slices.Contains(w.hosts, m.host) && !m.host.hidden.IsZero() && w.isDecided(m)
}

// judge: a decision that stands, and that is about a voter of no known machine, or about a machine that stays, is not taken away.
func (w decider) judge(s plan.Step, fresh bool) {
	if !fresh {
		return
	}
	for _, c := range w.decided.choices {
		if h := w.named(c.Target); c.Digest == s.Choice && c.Kind == plan.ForgetMachine && h != nil && h.unawaited &&
			w.decided.truly[c.Digest].target == c.Target {
			w.blame("%s, and %s is still there", s, c.Target)
		}
		if m := w.memberByID(c.Target); c.Digest == s.Choice && m != nil && w.isAdrift(m) && w.isDecided(m) {
			w.blame("%s, and %s was decided for what is there now", s, c.Target)
		}
	}
}
