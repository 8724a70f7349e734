package sim

import (
	"math/rand"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What happens seldom. Random draws none of it, so that its worlds stay as they are; Uncommon
// adds it to them.
const (
	Claim        Kind = "claim"         // machine N, by somebody else, For a while; then it has no owner
	Update       Kind = "update"        // somebody changes machine N in place, For a while
	NoKubeconfig Kind = "no kubeconfig" // somebody deletes its secret
	APIDown      Kind = "api down"      // the API server of machine N does not answer, For a while; etcd beside it does
	APIUnready   Kind = "api unready"   // the API server of machine N answers, and its probe fails, For a while
	Elect        Kind = "elect"         // etcd elects another leader, that on machine N, although none has failed
)

var uncommon = []Kind{Claim, Update, NoKubeconfig, APIDown, APIUnready, Elect}

// Uncommon makes of a seed the Setup that Random makes, and adds what happens seldom.
func Uncommon(seed int64) Setup {
	s := random(seed)
	r := rand.New(rand.NewSource(^seed))
	s.Sturdy = false
	events := s.Script
	for range 1 + r.Intn(3) {
		e := Event{Kind: uncommon[r.Intn(len(uncommon))], N: 1 + r.Intn(5), At: time.Duration(r.Intn(1200)) * time.Second, For: randomSpan(r)}
		events = append(events, e)
	}
	s.Gates = pick(r, 0, 0, time.Minute, 20*time.Minute)
	s.Lenient = r.Intn(2) == 0
	if r.Intn(3) == 0 {
		events = append(events, inPause(r)...)
	}
	s.Script = inOrder(events...)
	s.drawKind(seed)
	s.drawInPlace(seed)
	s.drawHold(seed)
	s.drawDiffering(seed)
	return s
}

// inPause draws accidents that happen while the cluster is paused, so that the rules find all of them at once.
func inPause(r *rand.Rand) []Event {
	at, most := time.Duration(60+r.Intn(2400))*time.Second, 60+r.Intn(600)
	events := []Event{{At: at, Kind: Pause, For: time.Duration(most) * time.Second}}
	for range 2 + r.Intn(3) {
		at += time.Duration(1+r.Intn(most/4)) * time.Second
		kind := pick(r, DeleteMachine, ForceDelete, Kill, Mark, Hide, StopEtcd, Reidentify, AddMember, Change, Elect)
		events = append(events, Event{At: at, Kind: kind, N: 1 + r.Intn(7), For: randomSpan(r)})
	}
	return events
}

// befallSeldom is what happens seldom. It reports whether the event was such a one.
func (w *World) befallSeldom(e Event) bool {
	switch {
	case !slices.Contains(uncommon, e.Kind):
		return comparer{w}.befall(e)
	case e.Kind == NoKubeconfig:
		w.tell("somebody deletes the kubeconfig")
		w.kubeconfig = false
		return true
	case e.Kind == Elect:
		w.electOther(e.N)
		return true
	}
	if h := w.number(e.N); h != nil {
		w.tell("%s: %s for %s", h.name, e.Kind, e.For)
		h.disowned = h.disowned || e.Kind == Claim
		w.prolong(e, e.N)
	}
	return true
}

// electOther lets the member of a machine lead: the leader was too slow for the others for a moment.
func (w *World) electOther(n int) {
	h := w.number(n)
	if h == nil || h.member == nil || !w.hasLeader() || !slices.Contains(w.electable(), h.member) {
		return
	}
	w.tell("etcd elects the member on %s", h.name)
	w.leader = h.member
}

// hasPoorAPI: the API server of a host does not answer, or its probe fails.
func (w *World) hasPoorAPI(h *host) bool {
	return !w.setup.NodeOnly && (h.isAway() || w.lasts(APIDown, h.number) || w.lasts(APIUnready, h.number)) // a Node does not tell
}

// isClaimed: somebody else controls a machine of the control plane, and the controller looks for such.
func (w *World) isClaimed() bool {
	return !w.deleting && slices.ContainsFunc(w.hosts, func(h *host) bool {
		return h.hidden.IsZero() && h.disowned && w.lasts(Claim, h.number)
	})
}

// strange is what is seen of a machine that is not the group's.
func (w *World) strange(h *host) plan.UncontrolledMachine {
	s := plan.UncontrolledMachine{Name: h.name, Against: h.against()}
	if w.lasts(Claim, h.number) {
		s.Against = "it is controlled by Other other"
	}
	return s
}

// isMute: a member could not be asked for long, and such a one counts as dead at last.
func (w *World) isMute(m *member) bool {
	return !w.isAsked(m) && !m.mute.IsZero() && w.now.Sub(m.mute) >= 5*time.Minute
}

// mayAnswer: a host's voter runs, and nothing proves or lets it count as dead.
func (w *World) mayAnswer(h *host) bool {
	m := h.member
	return m != nil && !m.removed && m.running && !m.learner && w.answer(m) != plan.Unhealthy && !w.isMute(m)
}

// hear notes since when a member cannot be asked.
func (w *World) hear(m *member) {
	switch muted := !w.isAsked(m); {
	case !muted:
		m.mute = time.Time{}
	case m.mute.IsZero():
		m.mute = w.now
	}
}
