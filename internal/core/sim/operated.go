package sim

import (
	"math/rand"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What differs where an operator in the cluster keeps etcd on the machines of a group of the kind ControlPlane. It adds a member on each
// machine whose Node it sees, and removes that of a machine that is being deleted; until then its own hook holds the machine. No other
// sees the members: what the operator says of etcd as a whole is all that is known.

// operatedSalt keeps what is drawn of it apart from what else is drawn of a seed.
const operatedSalt = 0x09e7

// drawOperated lets an operator keep etcd on the machines of some groups of which only the Nodes are known.
func (s *Setup) drawOperated(seed int64) {
	r := rand.New(rand.NewSource(seed ^ operatedSalt))
	if r.Intn(3) == 0 {
		s.Operated, s.External, s.Serial = true, true, false
		s.Replicas |= 1
		for i := range s.Script {
			if s.Script[i].Kind == Scale {
				s.Script[i].N |= 1 // the kind's API takes no other number
			}
		}
	}
}

// operates is what the operator does when it has had time for it, one thing after the other.
func (w *World) operates() {
	if !w.setup.Operated {
		return
	}
	work := w.operatorWork()
	if work != nil && w.hasPassed(w.operatorDue) {
		work()
		work, w.operatorDue = w.operatorWork(), time.Time{}
	}
	switch {
	case work == nil:
		w.operatorDue = time.Time{}
	case w.operatorDue.IsZero():
		w.operatorDue = w.now.Add(time.Duration(1+w.rand.Intn(20)) * time.Second)
	}
}

// operatorWork is what the operator does next; nil: nothing. It adds members before it removes any.
func (w *World) operatorWork() func() {
	if h := first(w.hosts, func(h *host) bool { return h.theirs && h.deleting && !slices.Contains(w.seats, h) }); h != nil {
		return func() {
			w.tell("the operator lets %s go", h.name)
			h.theirs = false
		}
	}
	if h := first(w.hosts, w.maySeat); h != nil {
		return func() {
			w.tell("the operator adds a member on %s", h.name)
			h.theirs = true
			w.seats = append(w.seats, h)
		}
	}
	if h := first(w.seats, func(h *host) bool { return w.leavesSeat(h) && w.standsWithout(h) }); h != nil {
		return func() {
			w.tell("the operator removes the member of %s", h.name)
			w.seats = slices.DeleteFunc(w.seats, func(o *host) bool { return o == h })
		}
	}
	return nil
}

// leavesSeat: a machine with a member is gone, or is being deleted and waits for the operator's hook.
func (w *World) leavesSeat(h *host) bool {
	return !slices.Contains(w.hosts, h) || h.deleting && !w.now.Before(h.drained)
}

// maySeat: the operator adds a member on a machine: its Node is there and it stays, and all other members run.
func (w *World) maySeat(h *host) bool {
	fits := h.stage == up && h.alive() && !h.deleting && !slices.Contains(w.seats, h)
	return fits && !slices.ContainsFunc(w.seats, func(o *host) bool { return !w.runsSeat(o) })
}

// runsSeat: the operator's member on a machine runs.
func (w *World) runsSeat(h *host) bool { return slices.Contains(w.hosts, h) && h.alive() }

// standsWithout: the operator's members are a majority, and still are without that on a machine.
func (w *World) standsWithout(gone *host) bool {
	running := 0
	for _, h := range w.seats {
		if h != gone && w.runsSeat(h) {
			running++
		}
	}
	return w.operatorHasQuorum() && running > (len(w.seats)-1)/2
}

// operatorHasQuorum: most of the operator's members run, or it has none yet.
func (w *World) operatorHasQuorum() bool {
	running := 0
	for _, h := range w.seats {
		if w.runsSeat(h) {
			running++
		}
	}
	return len(w.seats) == 0 || running > len(w.seats)/2
}

// isOperatorContent: the operator says that etcd is healthy: all of its members run.
func (w *World) isOperatorContent() bool {
	return !slices.ContainsFunc(w.seats, func(h *host) bool { return !w.runsSeat(h) })
}

// addOperator is what can be seen of the operator.
func (w *World) addOperator(o *plan.Observed) {
	if !w.setup.Operated {
		return
	}
	o.Etcd.Owner = plan.EtcdOperator
	if w.initialised && !w.isOperatorContent() && o.Want.Refused.Reason == "" {
		o.Want.Refused = plan.Refusal{Reason: "EtcdNotHealthy", Message: "Etcd cluster: condition Available is False: a member does not answer",
			Replaceable: true}
	}
}

// keepsQuorum: most voters run, under any controller.
func (w *World) keepsQuorum() bool {
	if w.setup.Operated {
		return w.operatorHasQuorum()
	}
	return w.hasQuorum()
}

// judgeOperated: more than half of the machines stay and work: a majority of the members is not known to be elsewhere.
func (w *World) judgeOperated(gone *host, s plan.Step) {
	if !w.setup.Operated {
		return
	}
	l := w.without(gone)
	if all := (decider{w}).awaited(); 2*(l.complete+l.held) <= all {
		w.blame("%s would leave %d of %d machines that work, and an operator keeps etcd on them", s, l.complete+l.held, all)
	}
}

// operatedAsWanted reports whether the operator has a member on each machine, and no other.
func (w *World) operatedAsWanted() bool {
	return len(w.seats) == decider{w}.awaited() && w.isOperatorContent()
}

// isHalf: a host stays, and without it no more than half of the machines would be there that stay and work.
func (w *World) isHalf(h *host) bool {
	return !h.deleting && 2*w.without(h).complete <= decider{w}.awaited()
}
