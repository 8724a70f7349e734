package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// The facts here are made as internal/kinds/stacked and internal/cluster/etcd make them of what they read.

// machine is what can be seen of a host.
func (w *World) machine(h *host, reachable bool) plan.Machine {
	m := plan.Machine{
		Name: h.name, Domain: h.domain, Created: h.created, CannotJoin: w.cannotJoin(h), Held: h.held, Started: h.started,
		Outdated: w.outdated(h), NeedsBackup: gate{w}.needs(h), Marked: h.marked, MarkedByPerson: h.byHand && h.marked != "",
		DeletePreferred: h.chosen, Replaced: h.replaced, Retries: h.retries,
		Deleting: h.deleting, Hook: h.hook, HookDue: h.deleting && h.hook && !h.theirs && !w.now.Before(h.drained),
	}
	m.Failed = w.reportedFailure(h)
	if w.lasts(Update, h.number) {
		m.Updating = "kubelet v1.36.3"
	}
	if m.Failed == "" && w.lasts(Trouble, h.number) {
		m.Failed = "the provider does not answer"
	}
	m.Gone = h.vanished && w.setup.Reports
	w.addUpdate(&m, h)
	w.addNode(&m, h, reachable)
	return m
}

// reportedFailure is why kubeadm failed on a host, where the provider reports it; empty: it did not, or there is no report.
func (w *World) reportedFailure(h *host) string {
	if !w.setup.Reports {
		return ""
	}
	return h.failed
}

// addNode adds what can be seen of a host's Node, and of what it runs.
func (w *World) addNode(m *plan.Machine, h *host, reachable bool) {
	if w.setup.EtcdOnly {
		m.Components = []plan.Component{{Name: components[0], Why: "no member votes there"}}
		return
	}
	if h.node.IsZero() || !reachable || h.nodeGone {
		if !h.node.IsZero() {
			m.Host = h.name
		}
		m.Components = w.unknownComponents("the machine has no Node")
		return
	}
	lost := w.isNodeLost(h)
	m.Host, m.UpSince, m.Ready = h.name, h.node, w.isReady(h)
	if h.gate {
		m.Gate = "StorageReady"
	}
	if lost {
		m.Components = w.unknownComponents("Node " + h.name + " does not report")
		return
	}
	m.Components = w.components(h)
	if w.setup.NodeOnly {
		m.Components = nodeComponent(h, m.Ready)
	}
}

// isNodeLost: its kubelet has been silent for long enough to be noticed.
func (w *World) isNodeLost(h *host) bool {
	return !h.alive() && !w.now.Before(h.dead.Add(nodeLost)) || !h.silent.IsZero() && !w.now.Before(h.silent.Add(nodeLost))
}

// cannotJoin says why nothing on a host will add a member any more, as far as it can be known.
func (w *World) cannotJoin(h *host) string {
	m, failure := h.member, w.reportedFailure(h)
	switch {
	case h.vanished && w.setup.Reports:
		return "nothing is left of it"
	case m == nil && failure != "":
		return "kubeadm failed: " + failure
	case m == nil:
		return ""
	case m.removed && !h.unnoted:
		return "its member was removed"
	case !m.removed && m.name != "" && w.isPlaced(h) && !w.setup.EtcdOnly:
		return "its etcd has run"
	}
	return ""
}

// isPlaced: it is known that the member of a host is the host's.
func (w *World) isPlaced(h *host) bool { return w.setup.Places || !h.node.IsZero() }

var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}

func (w *World) unknownComponents(why string) []plan.Component {
	if w.setup.NodeOnly {
		return []plan.Component{{Name: components[1], Why: why}}
	}
	all := make([]plan.Component, 0, len(components))
	for _, name := range components {
		all = append(all, plan.Component{Name: name, Why: why})
	}
	if w.setup.External {
		return all[1:]
	}
	return all
}

// components is what can be seen of what a host runs whose kubelet reports.
func (w *World) components(h *host) []plan.Component {
	if h.stage < up {
		return w.startingComponents(h)
	}
	all := healthyComponents()
	if h.sick {
		all[3].Health, all[3].Why = plan.Unhealthy, "CrashLoopBackOff"
	}
	if w.hasPoorAPI(h) {
		all[1].Health, all[1].Why = plan.Unhealthy, "its probe does not succeed"
	}
	if w.setup.External {
		return all[1:]
	}
	if w.lacksEtcd(h) {
		// The API server of a machine knows only the etcd beside it.
		for i := range 2 {
			all[i].Health, all[i].Why = plan.Unhealthy, "etcd is down"
		}
	}
	return all
}

// healthyComponents are the components of a host on which all is well.
func healthyComponents() []plan.Component {
	all := make([]plan.Component, 0, len(components))
	for _, name := range components {
		all = append(all, plan.Component{Name: name, Health: plan.Healthy})
	}
	return all
}

// lacksEtcd: a host lives on which no member runs.
func (w *World) lacksEtcd(h *host) bool { return h.alive() && (h.member == nil || !h.member.running) }

// startingComponents are those of a host that comes up: there is no pod yet, or its probe does
// not succeed.
func (w *World) startingComponents(h *host) []plan.Component {
	all := w.unknownComponents("there is no pod")
	if h.stage == settling && h.number%2 == 0 {
		for i := range all {
			all[i].Health, all[i].Why = plan.Unhealthy, "running, and its probe does not succeed yet"
		}
	}
	return all
}

// survey is what etcd says of itself, asked member by member.
func (w *World) survey(o *plan.Observed) {
	if w.now.Before(w.refusedUntil) {
		o.Etcd.Why = "all members refuse our certificate: expired, or not yet valid by their clock"
		return
	}
	answering, voters := w.answering()
	if answering == 0 {
		o.Etcd.Why = "no member returned its list of members"
		return
	}
	o.Etcd.Known, o.Etcd.Agreed = true, w.hasLeader() && answering > voters/2
	if !o.Etcd.Agreed {
		o.Etcd.Why = fmt.Sprintf("only %d of %d voters gave this list of members", answering, voters)
	}
	o.Etcd.Members = make([]plan.Member, 0, len(w.members))
	for _, m := range w.members {
		o.Etcd.Members = append(o.Etcd.Members, w.surveyed(m))
	}
	comparer{w}.add(&o.Etcd)
	spacious{w}.measure(o)
}

// surveyed is what is known of a member after etcd was asked.
func (w *World) surveyed(m *member) plan.Member {
	e := plan.Member{ID: m.id, Name: m.name, Learner: m.learner, Placeholder: m.placeholder, Leader: m == w.leader, Health: w.answer(m)}
	if w.isPlaced(m.host) && w.isOurs(m.host) && slices.Contains(w.hosts, m.host) {
		e.Machine = m.host.name
	}
	e.InSync = m.learner && e.Health == plan.Healthy && w.mayPromote(m)
	e.Alarms = w.alarms(m)
	e.Since = w.sighted(e)
	return e
}

// answering counts the voters: those that run and can be asked, and all.
func (w *World) answering() (answering, voters int) {
	for _, m := range w.members {
		if m.learner {
			continue
		}
		voters++
		if m.running && w.isAsked(m) {
			answering++
		}
	}
	return answering, voters
}

// alarms are those that a member raises, sorted.
func (w *World) alarms(m *member) []string {
	var raised []string
	if m.corrupt {
		raised = append(raised, "CORRUPT")
	}
	if m.running && w.lasts(Alarm, m.host.number) {
		raised = append(raised, "NOSPACE")
	}
	return raised
}

// isAsked: there is a way to ask a member: its Node is known, or it has started on a machine
// whose address is. Those that have left with their machine are not asked.
func (w *World) isAsked(m *member) bool {
	h := m.host
	if w.hasLeft(h) || w.lasts(BlindMember, h.number) {
		return false
	}
	byAddress := w.setup.Places && w.isOurs(h)
	switch {
	case w.setup.Forwarded:
		return w.isForwarded(h)
	case h.nodeGone:
		return byAddress
	}
	return !h.node.IsZero() || byAddress && m.name != ""
}

// hasLeft: a host is gone, or nothing holds it any more.
func (w *World) hasLeft(h *host) bool { return !slices.Contains(w.hosts, h) || w.isDoomed(h) }

// isForwarded: an API server and the kubelet of a host forward its ports, with leave to.
func (w *World) isForwarded(h *host) bool {
	return !h.node.IsZero() && !h.nodeGone && !w.isNodeLost(h) && !w.forbidden && w.reachable() && !w.lasts(BlindAPI, 0)
}

// answer is the health that a member answers for itself.
func (w *World) answer(m *member) plan.Health {
	switch {
	case !w.isAsked(m), m.name == "":
		return plan.Unknown
	case m.running && w.hasLeader() && !m.corrupt:
		return plan.Healthy
	}
	return plan.Unhealthy
}

// sighted is since when a member looks as it does.
func (w *World) sighted(e plan.Member) time.Time {
	now := sight{named: e.Name != "", learner: e.Learner, placed: e.Machine != "", health: e.Health, since: w.now}
	if s, ok := w.seen[e.ID]; ok {
		now.since = s.since
		if s == now {
			return s.since
		}
		now.since = w.now
	}
	w.seen[e.ID] = now
	return w.now
}

// isSteady: a host came up, has its own member, works and stays.
func (w *World) isSteady(h *host) bool {
	return h.stage == up && !h.deleting && w.isOwn(h) && w.works(h) && h.alive() && h.failed == ""
}

// isComing: a host is on its way, and not late. One whose member was removed gets no other.
func (w *World) isComing(h *host) bool {
	if h.member != nil && h.member.removed {
		return false
	}
	late := !h.node.IsZero() && w.now.Sub(h.node) >= 4*time.Minute || w.now.Sub(h.begun()) >= 9*time.Minute && !h.held
	return h.stage < up && !h.deleting && !late && h.failed == "" && h.alive()
}
