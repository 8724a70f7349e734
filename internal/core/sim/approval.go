package sim

import (
	"fmt"
	"math/rand"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What differs where a person must approve a change before machines are replaced, or changed in place, for it.

// Approve is a person's approval of the spec of number N, the one that is wanted or another.
const Approve Kind = "approve"

// approvalSalt keeps what is drawn of approvals apart from what else is drawn of a seed.
const approvalSalt = 0xa9904e

// drawApproval asks for approvals in some groups. Most changes are approved some time later, some too early, some never.
func (s *Setup) drawApproval(seed int64) {
	r := rand.New(rand.NewSource(seed ^ approvalSalt))
	if r.Intn(5) > 0 || s.Sturdy {
		return
	}
	s.Approval = true
	for _, e := range slices.Clone(s.Script) {
		if e.Kind == Change && r.Intn(4) > 0 {
			at := max(0, e.At+time.Duration(r.Intn(400)-60)*time.Second)
			s.Script = inOrder(append(s.Script, Event{At: at, Kind: Approve, N: pick(r, e.N, e.N, e.N, 1+r.Intn(3))})...)
		}
	}
}

// approve notes what a person approved.
func (w *World) approve(spec int) {
	w.tell("spec %d is approved", spec)
	w.approved = spec
}

// isUnapproved: a person must approve the wanted spec, and has not.
func (w *World) isUnapproved() bool { return w.setup.Approval && w.approved != w.spec }

// addApproval is what can be seen of approvals.
func (w *World) addApproval(o *plan.Observed) {
	if w.isUnapproved() {
		o.Group.Unapproved = fmt.Sprintf("spec-%d", w.spec)
	}
}

// spendApproval forgets an approval when all is as it was for.
func (w *World) spendApproval(d plan.Decision, fresh bool) {
	if d.Step.Verb == plan.Nothing && fresh {
		w.approved = 0
	}
}

// judgeApproval: without an approval no host that works goes, or is changed, for a machine of another spec.
func (w *World) judgeApproval(s plan.Step, fresh bool) {
	if !fresh || !w.isUnapproved() || w.deleting || !w.initialised {
		return
	}
	if what, begins := beginsChange(w, s); begins {
		w.blame("%s, %s, and nobody has approved spec %d", s, what, w.spec)
	}
}

// beginsChange reports whether a step begins to make a machine that works what is wanted now, and with how many machines.
func beginsChange(w *World, s plan.Step) (what string, begins bool) {
	h, staying := w.named(s.Machine), w.count(func(h *host) bool { return !h.deleting && w.isOurs(h) })
	switch s.Verb {
	case plan.UpdateInPlace:
		begins = !h.isBegunInPart()
	case plan.Create, plan.EnableDowngrade:
		begins = staying >= w.replicas
	case plan.Delete:
		begins = h != nil && staying <= w.replicas && w.hasServedUnmarked(h)
	}
	return fmt.Sprintf("with %d of %d machines", staying, w.replicas), begins
}

// hasServedUnmarked reports whether a host came up, whether it works now or not, and no other is wanted in its place. A host whose member
// was removed serves no client.
func (w *World) hasServedUnmarked(h *host) bool {
	return !h.deleting && h.marked == "" && h.stage == up && (w.setup.External || h.member != nil && !h.member.removed)
}

// isForApproval: a host is of another spec than is wanted, and waits for an approval.
func (w *World) isForApproval(h *host) bool {
	return w.isUnapproved() && !h.deleting && (w.isReplaced(h) || w.isChangedInPlace(h))
}
