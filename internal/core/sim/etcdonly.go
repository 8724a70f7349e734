package sim

import (
	"math/rand"
	"time"
)

// What differs where a group is of the kind EtcdCluster: machines run a member of etcd and nothing else, there are no Nodes, and
// only a step promotes a learner.

// etcdOnlySalt keeps what is drawn of the kind apart from what else is drawn of a seed.
const etcdOnlySalt = 0xe7cd

// drawEtcdOnly makes some groups those of the kind EtcdCluster.
func (s *Setup) drawEtcdOnly(seed int64) {
	r := rand.New(rand.NewSource(seed ^ etcdOnlySalt))
	if r.Intn(6) == 0 && !s.External && !s.Serial && !s.NodeOnly {
		s.makeEtcdOnly()
	}
}

// makeEtcdOnly makes a group of the kind EtcdCluster: members are asked at their machines' addresses, and the bootstrap provider keeps
// what they need to begin.
func (s *Setup) makeEtcdOnly() {
	s.EtcdOnly, s.Places, s.Forwarded, s.NodeFirst, s.Gates = true, true, false, false, 0
}

// ofNodes are events that happen to what machines of etcd have not: a Node, an API server, what kubeadm left in the cluster.
var ofNodes = map[Kind]bool{
	Unready: true, Sicken: true, Gate: true, BlindAPI: true, Silent: true, DeleteNode: true, NoAuthority: true, NoEndpoint: true,
	Forbid: true, Upstream: true, NoKubeconfig: true, APIDown: true, APIUnready: true,
}

// rise: the member of a machine of etcd votes, and the machine is all that it should be.
func (w *World) rise(h *host) {
	h.node, h.stuck = w.now, false
	w.enter(h, up)
	w.initialise(h)
}

// promote makes a learner a voter, if etcd lets it.
func (w *World) promote(m *member) {
	if m != nil && m.learner && w.mayPromote(m) {
		m.learner = false
		w.rise(m.host)
	}
}

// isNeverPromoted: where only a step promotes, none will: the machine goes, or the member cannot be asked.
func (w *World) isNeverPromoted(m *member) bool {
	return w.setup.EtcdOnly && (m.host.marked != "" || m.host.spec != w.spec || !w.isAsked(m))
}

// silentMember is since when the member of a machine of etcd, which voted, does not answer; zero: it does, or never voted.
func (w *World) silentMember(h *host) time.Time {
	m := h.member
	switch {
	case m == nil || m.removed || m.running && h.alive():
		return time.Time{}
	case !h.alive():
		return h.dead
	}
	return m.halted
}
