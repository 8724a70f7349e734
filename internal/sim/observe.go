package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/plan"
)

// freshness is how old a look may be that is taken for a new one.
const freshness = 5 * time.Second

// Look is what the controller sees: the truth, a look of a moment ago, or less
// than the truth. It reports whether it is the truth of now.
func (w *World) Look() (plan.Observed, bool) {
	now := w.Observe()
	w.looks, w.saw = append(w.looks, look{now, w.spec}), w.spec
	if len(w.looks) > 3 {
		w.looks = w.looks[1:]
	}
	w.blinded = w.chance(w.setup.Luck.Blind)
	if w.blinded {
		now.Etcd.Members = slices.Clone(now.Etcd.Members)
		w.blind(&now)
		w.upset()
		return now, false
	}
	if w.chance(w.setup.Luck.Stale) {
		old := w.looks[w.rand.Intn(len(w.looks))]
		if now.Now.Sub(old.Now) <= freshness {
			w.saw = old.spec
			return old.Observed, old.Now.Equal(now.Now)
		}
	}
	return now, true
}

func (w *World) chance(percent int) bool { return percent > 0 && w.rand.Intn(100) < percent }

// blind hides a part of what is observed.
func (w *World) blind(o *plan.Observed) {
	switch n := w.rand.Intn(4); {
	case n == 0 || !o.Etcd.Known:
		o.Cluster.Reachable, o.Cluster.Unreachable = false, "context deadline exceeded"
	case n == 1:
		o.Etcd.Known, o.Etcd.Why, o.Etcd.Members = false, "context deadline exceeded", nil
	case n == 2:
		o.Etcd.Agreed, o.Etcd.Why = false, "two members have two lists"
	case len(o.Etcd.Members) > 0:
		o.Etcd.Members[w.rand.Intn(len(o.Etcd.Members))].Health = plan.Unknown
	}
}

// Observe is what can be seen of the world now.
func (w *World) Observe() plan.Observed {
	o := plan.Observed{
		Now: w.now,
		Group: plan.Group{
			Name: "cp", Deleting: w.deleting, Paused: w.now.Before(w.pausedUntil),
			Initialized: w.initialised, New: !w.initialised, LastMachine: w.last, Begun: w.begun,
			Repairing: w.repairing != nil,
		},
		Want: plan.Want{
			Replicas: w.replicas, MaxParallel: w.setup.MaxParallel, Learners: !w.setup.Serial,
			Domains: w.setup.Domains, NameFormat: "cp-%s",
		},
		Cluster: plan.Cluster{
			Infrastructure: true, Endpoint: "10.0.0.1:6443",
			Kubeconfig: plan.Kubeconfig{Exists: w.kubeconfig},
			Reachable:  w.reachable(),
		},
		Etcd: plan.Etcd{Managed: !w.setup.External},
	}
	w.addSpec(&o)
	if !w.certificates {
		o.Cluster.MissingCertificates = []string{"ca", "etcd", "proxy", "sa"}
	}
	if !o.Cluster.Reachable {
		o.Cluster.Unreachable = "connection refused"
	}
	if w.setup.Workers && (w.workersUntil.IsZero() || w.now.Before(w.workersUntil)) {
		o.Workers = []string{"worker-1"}
	}
	for _, h := range w.hosts {
		o.Machines = append(o.Machines, w.machine(h))
	}
	if o.Etcd.Managed {
		w.survey(&o)
	}
	return o
}

// reachable: an API server answers.
func (w *World) reachable() bool {
	if !w.setup.External && !w.hasLeader() {
		return false
	}
	return slices.ContainsFunc(w.hosts, w.serving)
}

// machine is what can be seen of a host.
func (w *World) machine(h *host) plan.Machine {
	m := plan.Machine{
		Name: h.name, Domain: h.domain, Created: h.created,
		Outdated: w.outdated(h), Marked: h.marked, Chosen: h.chosen, Replaced: h.replaced, Retries: h.retries,
		Deleting: h.deleting, Hook: h.hook, HookDue: h.deleting && h.hook && !w.now.Before(h.drained),
	}
	if w.setup.Reports {
		m.Failed = h.failed
	}
	if h.node.IsZero() {
		return m
	}
	lost := !h.alive() && !w.now.Before(h.dead.Add(nodeLost))
	m.Node, m.NodeSince, m.NodeReady = h.name, h.node, h.unready.IsZero() && !lost
	if h.gate {
		m.Gate = "StorageReady"
	}
	m.Components = w.components(h, lost)
	return m
}

// components is what can be seen of what a host with a Node runs.
func (w *World) components(h *host, lost bool) []plan.Component {
	health, why := plan.Healthy, ""
	switch {
	case lost:
		health, why = plan.Unhealthy, "the node is lost"
	case h.stage == settling:
		health, why = plan.Unknown, "not started"
	}
	var all []plan.Component
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		all = append(all, plan.Component{Name: name, Health: health, Why: why})
	}
	if h.sick && health == plan.Healthy {
		all[3].Health, all[3].Why = plan.Unhealthy, "CrashLoopBackOff"
	}
	if w.setup.External {
		return all[1:]
	}
	if h.alive() && !h.member.running {
		// The API server of a machine knows only the etcd beside it.
		for i := range 2 {
			all[i].Health, all[i].Why = plan.Unhealthy, "etcd is down"
		}
	}
	return all
}

// survey is what etcd says of itself.
func (w *World) survey(o *plan.Observed) {
	if !slices.ContainsFunc(w.members, func(m *member) bool { return m.running }) {
		o.Etcd.Why = "no member answers"
		return
	}
	if w.now.Before(w.refusedUntil) {
		o.Etcd.Why = "all members refuse our certificate: expired, or not yet valid by their clock"
		return
	}
	o.Etcd.Known, o.Etcd.Agreed = true, true
	for _, m := range w.members {
		e := plan.Member{ID: m.id, Name: m.name, Learner: m.learner, Leader: m == w.leader, Health: plan.Unhealthy}
		if m.running {
			e.Health = plan.Healthy
		}
		known := w.setup.Places || !m.host.node.IsZero() && m.name != ""
		if known && slices.Contains(w.hosts, m.host) {
			e.Machine = m.host.name
		}
		e.Since = w.sighted(e)
		o.Etcd.Members = append(o.Etcd.Members, e)
	}
}

// sighted is since when a member looks as it does.
func (w *World) sighted(e plan.Member) time.Time {
	look := fmt.Sprint(e.Name, e.Learner, e.Health)
	if s, ok := w.seen[e.ID]; ok && s.look == look {
		return s.since
	}
	w.seen[e.ID] = sight{look, w.now}
	return w.now
}
