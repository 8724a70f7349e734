package main

import (
	"fmt"

	"github.com/quorate/quorate/internal/core/plan"
)

// What people do about unknown voters, and about machines that go.

// choice is what a person decided, and for which voters and machines. Numbers of machines are bits.
type choice struct {
	kind             plan.ChoiceKind
	num              uint8
	voters, machines uint16
	strays           [2]bool
}

// renumbered is a decision with other numbers. One that is about numbers that are not there any more counts for nothing, whatever it was.
func (c choice) renumbered(used uint16, to [highestNumber + 1]uint8) choice {
	if c == (choice{}) {
		return c
	}
	if (c.voters|c.machines|1<<c.num)&^used != 0 {
		return choice{kind: plan.RemoveVoter, voters: 1}
	}
	d := choice{kind: c.kind, num: to[c.num], strays: c.strays}
	for n, m := range to {
		d.voters |= c.voters >> n & 1 << m
		d.machines |= c.machines >> n & 1 << m
	}
	return d
}

// addChoice adds what a person decided, for the facts as they were: the digest is another one when they are others.
func (g inPast) addChoice(s *state, o *plan.Observed) {
	p, is := g.of(s)
	if !is || p.choice == (choice{}) {
		return
	}
	c := plan.Choice{Kind: p.choice.kind, Target: nameOf(p.choice.num), Digest: "void"}
	if c.Kind == plan.RemoveVoter {
		c.Target = fmt.Sprintf("e%d", p.choice.num)
	}
	if g.chosen(s, p) {
		c.Digest = plan.ChoiceDigest(*o, c.Kind, c.Target)
	}
	o.Choices = []plan.Choice{c}
}

// chosen: what a person decided was decided for the voters and machines that are there.
func (g inPast) chosen(s *state, p past) bool {
	return p.choice == g.choiceOf(s, p.choice.kind, p.choice.num) && g.find(s, p.choice.num) > 0
}

// choiceOf is what a person decides now.
func (g inPast) choiceOf(s *state, kind plan.ChoiceKind, num uint8) choice {
	c := choice{kind: kind, num: num}
	if kind == plan.ForgetMachine {
		return c
	}
	s.each(func(i int, h *host) {
		bit := uint16(1) << g.num(s, i)
		if g.voter(h) {
			c.voters |= bit
		}
		if !h.has(hidden) {
			c.machines |= bit
		}
	})
	for k, m := range s.strays {
		c.strays[k] = m&left != 0 && m&learns == 0
	}
	return c
}

// people decide about a voter whose machine is unknown, wait no longer for a machine that goes, and end an unknown host without a member.
func (g inPast) people(all *moves, s state, p past) {
	decide := func(i int, kind plan.ChoiceKind) {
		to, q := s, p
		q.choice = g.choiceOf(&s, kind, p.nums[i])
		if q.choice != p.choice {
			to.past = g.times.keep(q)
			all.add(g.group, false, to, "a person decides "+string(kind), i+1)
		}
	}
	s.each(func(i int, h *host) {
		switch {
		case h.has(hidden) && g.voter(h):
			decide(i, plan.RemoveVoter)
		case h.has(hidden) && !g.member(h):
			to := s
			to.hosts[i].set(forced)
			g.drop(&to, i)
			all.add(g.group, false, to, "a person ends it", i+1)
		case h.has(released) && !g.member(h) && !h.has(hidden):
			decide(i, plan.ForgetMachine)
		}
	})
}

// unknownDecisions are those about voters of unknown machines that only a person may take.
var unknownDecisions = []personalDecision{
	{nil, "no machine is known", func(g *group, s *state, said string) bool {
		return len(plan.Offers(g.look(s))) > 0 && isNamed(g, s, said, func(h *host) bool { return h.has(hidden) && g.voter(h) })
	}},
}
