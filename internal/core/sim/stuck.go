package sim

import (
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// judgeStuck: what is removed of a machine that stays will never serve.
func (w *World) judgeStuck(m *member, fresh bool) {
	if m != m.host.member || fresh && (decider{w}).mayGo(m) {
		return
	}
	switch {
	case fresh && !m.learner && w.answer(m) == plan.Healthy:
		w.blame("the voter of %s is removed, which answers", m.host.name)
	default:
		judgeUseless(w, m)
	}
}

// judgeUseless: a member that is removed although its machine stays would never serve.
func judgeUseless(w *World, m *member) {
	switch {
	case w.isMissed(m.host):
	case !m.host.hidden.IsZero() && w.answer(m) != plan.Healthy && w.isSeenFor(m, 20*time.Second): // also before that
	case m.corrupt: // it counts as dead
	case m.running && !m.learner:
		w.blame("the voter of %s is removed, which stays and serves", m.host.name)
	case m.host.broken():
	case m.name == "" && w.mayStart(m.host):
		w.blame("the member of %s is removed, which is about to start", m.host.name)
	case m.name == "": // etcd does not let it start
	case w.isNeverPromoted(m):
	case m.running:
		w.blame("the learner of %s is removed, which is about to vote", m.host.name)
	}
}
