package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// A personal decision is one that only a person may take: the reasons that name it, and
// what must truly be the case in the world. said is all that the rules say.
type personalDecision struct {
	reasons []string // of the decision; none: whatever it is
	truth   func(w *World, said string) bool
}

// personalDecisions are all of them. A world at rest that is not as wanted is right only
// where one of them is due.
var personalDecisions = []personalDecision{
	// What is left may be the only copy of the data.
	{[]string{"QuorumLost", "Unreachable", "EtcdUnknown", "EtcdDisagrees", "NoLeader", "ClusterUnseen"}, (*World).isLost},
	{[]string{"NoMachineLeft"}, func(w *World, _ string) bool { return w.initialised && !decider{w}.hasAwaited() }},
	{[]string{"EtcdDataDiffers"}, func(w *World, _ string) bool { return comparer{w}.isDecided() }},
	// The user asks for what cannot be.
	{[]string{"EvenReplicas"}, func(w *World, _ string) bool { return !w.setup.External && w.replicas%2 == 0 }},
	// Nothing ever came up, and what there was recorded of it is lost. A member that runs all the same may hold data.
	{[]string{"ClusterUnseen", "QuorumLost"}, func(w *World, said string) bool {
		return w.isNamed(said, func(h *host) bool { return h.broken() || h.held })
	}},
	// Something is broken, and is not marked: it may be repaired where it stands.
	{nil, func(w *World, said string) bool { return w.isNamed(said, w.isUnmarked) }},
	// An operator keeps etcd, and without the machine that is to go no more than half would be there to stay and work.
	{nil, func(w *World, said string) bool {
		return w.setup.Operated && strings.Contains(said, "and more than half of") && w.isNamed(said, w.isHalf)
	}},
	// Its replacements break as well, more often than the user allows.
	{nil, func(w *World, said string) bool {
		return strings.Contains(said, "were replaced in a row, and at most") && w.isNamed(said, w.isOverLimits)
	}},
	// It is not known whose a voter is: its machine is gone, or never registered a Node and has no
	// address, and there are others without a Node.
	{nil, func(w *World, said string) bool {
		return strings.Contains(said, "for which no machine is known") && w.isNamed(said, (*host).isNodeless) &&
			slices.ContainsFunc(w.members, w.isUnplaced)
	}},
	// A voter answers whose machine is not known since the management cluster was restored, and etcd does not let it go.
	{nil, func(w *World, said string) bool {
		return strings.Contains(said, "no machine is known for") && w.isNamed(said, w.isUnknownVoter)
	}},
	// Of two machines none can be updated while the other holds a quorum.
	{[]string{"CannotSpare"}, func(w *World, said string) bool {
		return !w.setup.External && w.replicas == 2 && w.isNamed(said, w.isChangedInPlace)
	}},
	// An update failed; or the user wants nothing to be replaced, or somebody else to update.
	{[]string{"UpdateFailed"}, func(w *World, said string) bool { return w.isNamed(said, w.isFailedForPerson) }},
	{nil, func(w *World, said string) bool { return w.isNamed(said, w.isKeptForPerson) }},
	{[]string{"ApprovalRequired"}, func(w *World, said string) bool { return w.isNamed(said, w.isForApproval) }},
	{[]string{"ReplacementsUnreadable"}, func(w *World, said string) bool { return w.isNamed(said, w.isForReader) }},
	{[]string{"UpdaterUnanswered"}, func(w *World, said string) bool { return w.isNamed(said, w.isForExtension) }},
	{[]string{"UpdatedElsewhere"}, func(w *World, said string) bool { return w.isNamed(said, w.isForOthers) }},
	// The infrastructure of a machine does not go.
	{[]string{"MachineDeleting", "GroupDeleting"}, func(w *World, said string) bool { return w.isNamed(said, (*host).remains) }},
	// The only one that could replace it would be made from nothing.
	{nil, func(w *World, said string) bool {
		return strings.Contains(said, "no other machine is complete") && w.isNamed(said, w.isOnlyOne)
	}},
}

// awaitsPerson reports whether the rules name a decision that only a person may take, and
// whether that is truly due.
func (w *World) awaitsPerson() bool {
	o := w.Observe()
	d := plan.Next(o)
	if d.Step.Verb == plan.Nothing && w.fitButForNodes() {
		return true
	}
	if d.Step.Verb != plan.Wait {
		return false // a message that all is as wanted asks for no decision
	}
	said := explained(o)
	for _, p := range slices.Concat(personalDecisions, recoveryDecisions, sleepDecisions) {
		if (p.reasons == nil || slices.Contains(p.reasons, d.Reason)) && p.truth(w, said) {
			return true
		}
	}
	return false
}

// explained is what all rules say, a line each.
func explained(o plan.Observed) string {
	var said strings.Builder
	for _, v := range plan.Explain(o) {
		said.WriteString(v.Because + " " + v.Decision.Message + "\n")
	}
	return said.String()
}

// fitButForNodes reports whether all is as wanted but for Nodes that are not ready and not
// marked: a cluster without a network has no others, and must not wait for them.
func (w *World) fitButForNodes() bool {
	var found []*host
	for _, h := range w.hosts {
		if !h.unready.IsZero() && h.marked == "" {
			found = append(found, h)
		}
	}
	since := make([]time.Time, len(found))
	for i, h := range found {
		since[i], h.unready = h.unready, time.Time{}
	}
	fit := w.AsWanted() == nil
	for i, h := range found {
		h.unready = since[i]
	}
	return fit
}

// isNamed reports whether a host of which something is true is named in a text.
func (w *World) isNamed(text string, is func(*host) bool) bool {
	words := strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,:;()\n", r) })
	for _, h := range w.hosts {
		if is(h) && slices.Contains(words, h.name) {
			return true
		}
	}
	return false
}

// isLost: no API server can answer any more, or too few voters that can be asked.
func (w *World) isLost(string) bool {
	if !w.initialised || !w.reachable() {
		return w.initialised
	}
	proven := 0
	for _, m := range w.members {
		if !m.learner && !m.corrupt && w.answer(m) == plan.Healthy {
			proven++
		}
	}
	_, all := w.voters()
	return !w.setup.External && proven <= all/2
}

// isUnmarked: it is broken, and no other is wanted in its place.
func (w *World) isUnmarked(h *host) bool { return !h.deleting && h.marked == "" && h.ails() }

// isOverLimits: it was replaced too often already.
func (w *World) isOverLimits(h *host) bool {
	most := w.setup.Repair.Most
	return !h.deleting && h.marked != "" && most >= 0 && w.inARow(h) > most
}

// isOnlyOne: it is marked, and no other works.
func (w *World) isOnlyOne(h *host) bool {
	return !h.deleting && h.marked != "" && w.without(h).complete == 0
}

// isNodeless: it never came as far as its Node.
func (h *host) isNodeless() bool { return h.node.IsZero() && h.broken() }

// isUnplaced: it is not known where a voter runs.
func (w *World) isUnplaced(m *member) bool {
	return !m.learner && (m.host.node.IsZero() || !m.host.hidden.IsZero() || !slices.Contains(w.hosts, m.host))
}
