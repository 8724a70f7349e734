package sim

import (
	"fmt"
	"slices"
	"time"
)

// What happens to a group that changes hands: it is deleted without its machines, made again, or
// upstream's controller runs in our place for a while.

// changeHands is what happens to a group that changes hands.
func (w *World) changeHands(e Event) {
	switch e.Kind {
	case OrphanGroup:
		w.orphan(e.For)
	case Upstream:
		w.giveWay(e)
	case Recreate:
		w.recreate(e.For)
	}
}

// orphan deletes the group, and leaves its machines without an owner: the garbage collector takes the
// owner off one after the other, and lets the group go then.
func (w *World) orphan(most time.Duration) {
	if w.deleting {
		return
	}
	w.deleting, w.orphaning, w.workersUntil = true, true, w.now.Add(time.Minute)
	for _, h := range w.hosts {
		h.freed = w.now.Add(w.span(max(most, time.Second)))
	}
	w.endOrphaning()
}

// endOrphaning lets the group go when no machine names it any more.
func (w *World) endOrphaning() {
	for _, h := range w.hosts {
		if w.orphaning && !h.disowned {
			return
		}
	}
	w.orphaning = false
}

// recreate makes the group again, under the same name and with another UID, without what was
// recorded of the one before. Until the garbage collector comes, the machines name that one.
func (w *World) recreate(most time.Duration) {
	if w.deleting || !w.initialised || !isEvident(w.hosts) {
		return
	}
	w.restart()
	w.forgot, w.begun, w.repairing, w.last = true, "", nil, 0
	for _, h := range w.hosts {
		w.last = max(w.last, h.number)
		h.disowned, h.freed = true, w.now.Add(w.span(max(most, time.Second)))
	}
}

// isEvident: where all that was recorded is lost, machines with their labels tell of the cluster, so that it does not look like one that
// was never made. Those that are being deleted do not while another one is hidden, which would be left alone.
func isEvident(hosts []*host) bool {
	hides := slices.ContainsFunc(hosts, func(h *host) bool { return !h.hidden.IsZero() })
	return slices.ContainsFunc(hosts, func(h *host) bool { return h.hidden.IsZero() && (!hides || !h.deleting) })
}

// against is what contradicts the adoption of a host's machine.
func (h *host) against() string {
	if h.freed.IsZero() {
		return ""
	}
	return "it is controlled by KubeadmControlPlane cp, which is another than today's"
}

// giveWay lets upstream's controller run in our place for a while: what we recorded is not there
// afterwards, and a step of its own has been begun.
func (w *World) giveWay(e Event) {
	if w.deleting || !w.initialised || !isEvident(w.hosts) {
		return
	}
	w.restart()
	w.others, w.forgot, w.begun, w.repairing = w.now.Add(e.For), true, "", nil
	staying := 0
	for _, h := range w.hosts {
		h.unnoted, h.replaced, h.retries, h.inARow = true, time.Time{}, 0, 0
		if !h.deleting {
			staying++
		}
	}
	switch {
	case !w.certificates || !w.hasLeader() && !w.setup.External:
	case staying < w.replicas:
		w.kubeadm = w.spec
		w.theirs++
		h := &host{name: fmt.Sprintf("cp-x%da", w.theirs), number: -w.theirs, created: w.now, spec: w.spec, hook: true}
		w.hosts = append(w.hosts, h)
		w.enter(h, booting)
	case staying > 1:
		w.takeFirst()
	}
}

// takeFirst deletes the first machine that can be spared, as upstream's controller does: it notes nowhere
// that the member was removed.
func (w *World) takeFirst() {
	for _, h := range w.hosts {
		if !w.maySpare(h) {
			continue
		}
		w.remove(h)
		h.drained = w.now
		w.take(h.member)
		w.struck = append(w.struck, h.member)
		return
	}
}

// maySpare: a host is up, and its member runs, does not lead and may be removed.
func (w *World) maySpare(h *host) bool {
	m := h.member
	return h.stage == up && !h.deleting && m != nil && !m.removed && m != w.leader && w.mayRemove(m) == nil && m.running
}
