package main

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/core/plan"
)

// judge is asked of every step: no name in use is given, nothing unknown is taken away that a person did not decide on. What a person
// decided is not dropped before it is done.
func (g inPast) judge(s *state, t step) string {
	p, is := g.of(s)
	switch {
	case !is:
	case t.verb == create && g.isUsed(s, p, t.num):
		return fmt.Sprintf("the name %s is given, and a machine or a member has it", nameOf(t.num))
	case t.verb == removeMember && t.on > 0:
		h := &s.hosts[t.on-1]
		isDecided := p.choice.kind == plan.RemoveVoter && g.find(s, p.choice.num) == t.on && g.chosen(s, p)
		answers := g.asked(h) && (g.votes(h) || g.runs(h) && !h.has(stuck|old))
		if h.has(hidden) && answers && !isDecided {
			return "the member of an unknown machine is removed that answers, and no person decided it"
		}
	case t.verb == dropChoice:
		return g.judgeDropped(s, p)
	}
	return ""
}

// isUsed: a machine or a member has a name. A machine may be finished that was begun, of whose host nothing in the cluster tells: its
// infrastructure is known again, and has that host.
func (g inPast) isUsed(s *state, p past, num uint8) bool {
	at := g.find(s, num)
	isBegun := at > 0 && num == p.begun && s.hosts[at-1].has(hidden) && !g.tellsOf(&s.hosts[at-1])
	return at > 0 && !isBegun || slices.Contains(p.strays[:], num)
}

// forgotten counts the outdated machines that go, and that no rule waits for any more, as a person decided: 1 or 0.
func (g inPast) forgotten(s *state) int {
	p, is := g.of(s)
	if h := s.host(g.find(s, p.choice.num)); is && p.choice.kind == plan.ForgetMachine && h != nil && h.has(released) && h.has(outdated) {
		return 1
	}
	return 0
}

// judgeDropped: what a person decided, and stands, is not dropped.
func (g inPast) judgeDropped(s *state, p past) string {
	if !g.chosen(s, p) {
		return ""
	}
	h := s.host(g.find(s, p.choice.num))
	stays := h.has(hidden) && g.voter(h) && g.isAdrift(s)
	if p.choice.kind == plan.ForgetMachine {
		stays = h.has(released) && !g.member(h) && (h.stage >= voting || h.has(over)) && p.unnoted == 0
	}
	if stays {
		return "a decision of a person is dropped that stands"
	}
	return ""
}

// isRestored: the management cluster was restored. Fewer voters are known to run than do.
func (g inPast) isRestored(s *state) bool {
	p, is := g.of(s)
	return is && p.phase == restored
}

// isAdrift: no machine that stays is known on which an unknown voter may run.
func (g inPast) isAdrift(s *state) bool {
	return s.count(func(h *host) bool { return !h.has(hidden|released) && !g.member(h) && h.stage < settling }) == 0
}
