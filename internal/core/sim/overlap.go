package sim

import (
	"math/rand"

	"github.com/quorate/quorate/internal/core/plan"
)

// What differs where rollouts do not wait for infrastructure to go: one machine that has left may still have its host.

// overlapSalt keeps what is drawn of it apart from what else is drawn of a seed.
const overlapSalt = 0x0e71a

// drawOverlap lets some rollouts go on beside the host of one machine that has left.
func (s *Setup) drawOverlap(seed int64) {
	s.Overlap = rand.New(rand.NewSource(seed^overlapSalt)).Intn(3) == 0
}

// judgeOverlap: a machine more than wanted is made when the hosts of those before it are gone, but for one where the spec says so, and for
// those that a person waits for no longer.
func (w *World) judgeOverlap(s plan.Step, staying int) {
	most := 0
	if w.setup.Overlap && w.surge() > 0 {
		most = 1
	}
	lingering := w.count(func(h *host) bool {
		return h.deleting && !h.hook && !h.unawaited && h.hidden.IsZero() && w.isOurs(h)
	})
	if staying >= w.replicas && lingering > most {
		w.blame("%s for a rollout beside the hosts of %d machines that have left, %d would be allowed", s, lingering, most)
	}
}
