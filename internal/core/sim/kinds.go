package sim

import (
	"math/rand"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What differs where a group is of the kind ControlPlane. Its facts are made as internal/group makes them of machines
// whose static pods are not known, and as internal/kinds/machines makes them of its spec.

// Deactivate makes the group inactive For a while: the next step is told, and not taken.
const Deactivate Kind = "deactivate"

// nodeOnlySalt keeps what is drawn of the kind apart from what else is drawn of a seed.
const nodeOnlySalt = 0x5eed

// drawKind makes some groups those of the kind ControlPlane, and some of these inactive for a while.
func (s *Setup) drawKind(seed int64) {
	r := rand.New(rand.NewSource(seed ^ nodeOnlySalt))
	if r.Intn(5) > 0 {
		return
	}
	s.NodeOnly, s.ShrinkHealthy, s.Surge, s.MaxParallel = true, true, 1, pick(r, 1, 1, 1, 0, 3)
	s.drawOperated(seed)
	for i := range s.Script {
		if s.Script[i].Kind == Pause && r.Intn(2) == 0 {
			s.Script[i].Kind = Deactivate
		}
	}
	if r.Intn(3) == 0 {
		at := time.Duration(r.Intn(2400)) * time.Second
		s.Script = inOrder(append(s.Script, Event{At: at, Kind: Deactivate, For: randomSpan(r)})...)
	}
}

// isInactive: a person has not activated the group.
func (w *World) isInactive() bool { return w.lasts(Deactivate, 0) }

// ofKind is what an event is for the kind of the group; false: nothing of the sort can happen to it.
func (w *World) ofKind(e Event) (Event, bool) {
	if w.setup.EtcdOnly {
		return e, !ofNodes[e.Kind]
	}
	if !w.setup.NodeOnly {
		return e, true
	}
	switch e.Kind {
	case Sicken:
		e.Kind = Unready // nothing else tells that something on a machine is not healthy
	case SetSurge, Upstream, Forbid: // it always has surge 1; upstream's controller does not know it; it keeps no permissions
		return e, false
	}
	return e, true
}

// nodeComponent is the only component that is known of a host whose kubelet reports: it serves while the Node is ready.
func nodeComponent(h *host, ready bool) []plan.Component {
	c := plan.Component{Name: "kube-apiserver", Health: plan.Healthy}
	if !ready {
		c.Health, c.Why = plan.Unhealthy, "Node "+h.name+" is not ready"
	}
	return []plan.Component{c}
}

// isReady: a host's Node says that it is ready. Where nothing else is known of hosts it does not say so before all is up.
func (w *World) isReady(h *host) bool {
	return h.unready.IsZero() && !w.isNodeLost(h) && (!w.setup.NodeOnly || h.stage == up)
}

// follow brings what machines read as they join up to date, where their bootstrap provider keeps it.
func (w *World) follow() {
	if w.setup.NodeOnly || w.setup.EtcdOnly {
		w.kubeadm, w.addons = w.spec, w.spec
	}
}
