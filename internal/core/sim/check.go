package sim

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// How long a health check looks on: at a Node that is not ready, and at a machine without one.
const (
	readyTimeout   = 5 * time.Minute
	startupTimeout = 30 * time.Minute
)

// repair is what the group's object remembers of a machine that was given up, until
// another takes its place.
type repair struct {
	at     time.Time
	retry  int
	inARow int
}

// ailsUntil is when the health check loses patience with a host; zero: it has no complaint.
func (w *World) ailsUntil(h *host) time.Time {
	if w.setup.EtcdOnly && !h.node.IsZero() {
		if at := w.silentMember(h); !at.IsZero() {
			return at.Add(readyTimeout)
		}
		return time.Time{}
	}
	switch {
	case h.node.IsZero():
		return h.created.Add(startupTimeout)
	case h.nodeGone:
		return h.node
	case !h.silent.IsZero():
		return h.silent.Add(nodeLost + readyTimeout)
	case !h.alive():
		return h.dead.Add(nodeLost + readyTimeout)
	case !h.unready.IsZero():
		return h.unready.Add(readyTimeout)
	}
	return time.Time{}
}

// checkHealth marks hosts whose time is over, as long as they are no more than the
// quorum can lose, and takes the mark away from those that are well again.
func (w *World) checkHealth() {
	if !w.setup.Checks {
		return
	}
	w.unmarkHealthy()
	ailing := slices.DeleteFunc(slices.Clone(w.hosts),
		func(h *host) bool { return h.deleting || h.isUpdating() || !w.hasPassed(w.ailsUntil(h)) })
	if len(ailing) > (w.replicas-1)/2 {
		return
	}
	for _, h := range ailing {
		if h.marked == "" {
			w.tell("the health check marks %s", h.name)
			h.marked = "its node is not ready"
		}
	}
}

// unmarkHealthy takes the mark away from hosts of which the health check has no complaint any more.
func (w *World) unmarkHealthy() {
	for _, h := range w.hosts {
		if w.ailsUntil(h).IsZero() && h.marked != "" && !h.byHand {
			h.marked = ""
		}
	}
}

// remember keeps what the group's object says of a machine that is given up.
func (w *World) remember(s plan.Step) {
	if s.Repair && w.named(s.Machine) != nil {
		w.repairing = &repair{w.now, s.Retry, w.inARow(w.named(s.Machine))}
	}
}

// inherit hands that on to the machine that takes its place.
func (w *World) inherit(h *host) {
	if r := w.repairing; r != nil {
		h.replaced, h.retries, h.inARow, w.repairing = r.at, r.retry, r.inARow, nil
	}
}
