package sim

import (
	"math/rand"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What differs where machines are made ahead: they boot beside the first one, and are held back until a step starts them.

// eagerSalt keeps what is drawn of machines that are made ahead apart from what else is drawn of a seed.
const eagerSalt = 0xea6e4

// drawEager lets some groups of the kind KubeadmControlPlane make machines ahead.
func (s *Setup) drawEager(seed int64) {
	r := rand.New(rand.NewSource(seed ^ eagerSalt))
	s.Eager = r.Intn(4) == 0 && !s.NodeOnly && !s.EtcdOnly
}

// letBegin lets a host begin that was made ahead.
func (w *World) letBegin(h *host) {
	if h.held {
		h.held, h.started = false, w.now
	}
}

// begun is since when a host may come up.
func (h *host) begun() time.Time {
	if h.started.After(h.created) {
		return h.started
	}
	return h.created
}

// isHeld: a host that stays was made ahead and is held back.
func (w *World) isHeld(h *host) bool { return h.held && !h.deleting }

// initialises: a host may initialise the cluster.
func initialises(h *host) bool { return !h.held }

// judgeAhead: only hosts that join what is being initialised are made ahead, where the spec says so.
func (w *World) judgeAhead(s plan.Step, fresh bool) {
	staying, most := w.room(s)
	switch {
	case !w.setup.Eager:
		w.blame("%s, and nobody asked for machines ahead", s)
	case !fresh:
	case w.initialised:
		w.blame("%s, and there is a cluster to join", s)
	case !slices.ContainsFunc(w.hosts, initialises):
		w.blame("%s, and nobody initialises the cluster", s)
	case staying >= most:
		w.blame("%s would be machine %d of %d", s, staying+1, most)
	}
}

// judgeStart: who was made ahead joins as it would be created now.
func (w *World) judgeStart(s plan.Step, fresh bool) {
	h := w.named(s.Machine)
	switch {
	case h == nil:
	case h.deleting && fresh:
		w.blame("%s, which is being deleted", s)
	case !w.initialised:
		w.blame("%s has nothing to join", s)
	case fresh && h.spec != w.spec:
		w.blame("%s, which is of spec %d, and %d is wanted", s, h.spec, w.spec)
	case fresh:
		w.judgeJoin(s)
	}
}

// judgeDiscard: a host that is held back is not needed, and a wanted one stays.
func (w *World) judgeDiscard(gone *host, s plan.Step) {
	staying := w.count(func(h *host) bool { return !h.deleting && w.isOurs(h) })
	if !w.initialised && !slices.ContainsFunc(w.hosts, func(h *host) bool { return initialises(h) && !h.deleting }) {
		staying++
	}
	if gone.marked == "" && gone.spec == w.spec && staying <= w.replicas {
		w.blame("%s, which is wanted, and %d of %d machines are there", s, staying, w.replicas)
	}
}
