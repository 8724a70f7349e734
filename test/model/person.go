package main

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/core/plan"
)

// A personalDecision is one that only a person may take: the reasons that name it, and what must
// truly be the case. They are not taken here: where one is due and named, a group may stand still.
type personalDecision struct {
	reasons []string // of the decision; none: whatever it is
	says    string   // a part of what the rules say; empty: whatever they say
	truth   func(g *group, s *state, said string) bool
}

// personalDecisions are all of them.
var personalDecisions = []personalDecision{
	// What is left may be the only copy of the data.
	{[]string{"QuorumLost", "Unreachable", "EtcdUnknown", "EtcdDisagrees", "NoLeader", "ClusterUnseen"}, "", (*group).isLost},
	{[]string{"NoMachineLeft"}, "", func(_ *group, s *state, _ string) bool { return s.marks&initialised != 0 && s.known() == 0 }},
	// Something is broken, and is not marked: it may be repaired where it stands.
	{nil, "", func(g *group, s *state, said string) bool {
		return isNamed(g, s, said, func(h *host) bool { return g.ails(h) && !h.has(marked|deleting) })
	}},
	// An update failed, or the user wants nothing to be replaced.
	{[]string{"UpdateFailed"}, "", func(g *group, s *state, said string) bool {
		return isNamed(g, s, said, func(h *host) bool { return h.update == failing && h.has(outdated) })
	}},
	{nil, "", func(g *group, s *state, said string) bool {
		kept := func(h *host) bool { return g.ails(h) || h.has(marked) || h.has(outdated) && h.stage < settling }
		return g.inPlace == plan.InPlaceOnly && isNamed(g, s, said, kept)
	}},
	// The only one that could replace it would be made from nothing.
	{nil, "no other machine is complete", func(g *group, s *state, said string) bool {
		return isNamed(g, s, said, func(h *host) bool {
			return h.has(marked) && s.count(func(o *host) bool { return o != h && g.works(o) && !o.has(deleting) }) == 0
		})
	}},
	// It is not known whose a voter is: its machine is gone, and others never registered a Node.
	{nil, "for which no machine is known", func(g *group, s *state, said string) bool {
		return s.strays != [2]stray{} && isNamed(g, s, said, func(h *host) bool { return h.stage < settling && g.ails(h) })
	}},
}

// awaitsPerson: the rules name a decision that only a person may take, and it is truly due.
func (g *group) awaitsPerson(s *state, o plan.Observed, d plan.Decision) bool {
	var said strings.Builder
	for _, v := range plan.Explain(o) {
		said.WriteString(v.Because + " " + v.Decision.Message + "\n")
	}
	for _, p := range slices.Concat(personalDecisions, recoveryDecisions, unknownDecisions) {
		named := p.reasons == nil || slices.Contains(p.reasons, d.Reason)
		if named && strings.Contains(said.String(), p.says) && p.truth(g, s, said.String()) {
			return true
		}
	}
	return false
}

// isLost: no API server can answer any more, or too few voters that can be asked.
func (g *group) isLost(s *state, _ string) bool {
	if s.marks&initialised == 0 || !g.reachable(s) {
		return s.marks&initialised != 0
	}
	_, all := g.voters(s)
	return !g.external && s.count(func(h *host) bool { return g.voter(h) && g.answers(s, h) }) <= all/2
}

// ails: something of a host does not go on by itself.
func (g *group) ails(h *host) bool {
	return h.has(dark|stuck|down) || h.has(removed) && !h.has(deleting) // it was deleted, and an older object says that it is not
}

// isNamed reports whether a host of which something is true is named in a text.
func isNamed(g *group, s *state, text string, is func(*host) bool) bool {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,:;()\n", r) })
	found := false
	s.each(func(i int, h *host) { found = found || is(h) && slices.Contains(words, inPast{g}.name(s, i)) })
	return found
}
