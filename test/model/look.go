package main

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/plan"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// The ages that matter: a moment, and longer than anybody is patient.
const (
	moment = time.Second
	ages   = 2 * time.Hour
)

func name(i int) string { return fmt.Sprintf("cp-%d", i+1) }

// look is what the controller sees of a state.
func (g *group) look(s *state) plan.Observed {
	n := s.n()
	o := plan.Observed{
		Now:   now,
		Group: plan.Group{Name: "cp", Initialized: s.marks&initialised != 0, New: s.marks&initialised == 0, LastMachine: n},
		Want: plan.Want{
			Replicas: g.replicas, Learners: true, Surge: g.surge, NameFormat: "cp-%s",
			Repair: plan.RepairLimits{Most: -1, Healthy: time.Hour},
		},
		Cluster: plan.Cluster{
			Infrastructure: true, Endpoint: "10.0.0.1:6443", Kubeconfig: plan.Kubeconfig{Exists: true},
			Reachable: g.reachable(s),
		},
		Etcd: plan.Etcd{Managed: !g.external},
	}
	if !o.Cluster.Reachable {
		o.Cluster.Unreachable = "connection refused"
	}
	if s.spec&kubeadmOld != 0 {
		o.Cluster.Kubeadm = "it is old"
	}
	if s.spec&addonsOld != 0 {
		o.Cluster.Addons = "they are old"
	}
	o.Machines = make([]plan.Machine, 0, n)
	recent := false
	s.each(func(i int, h *host) {
		recent = recent || h.stage < settling && !h.has(late)
		o.Machines = append(o.Machines, g.machine(i, h, recent))
	})
	if !g.external {
		g.survey(s, &o)
	}
	return o
}

func (g *group) reachable(s *state) bool {
	return (g.external || s.leader != 0) && s.count(g.serving) > 0
}

// machine is what is seen of a host; recent: it is not older than one that was made a moment ago.
func (g *group) machine(i int, h *host, recent bool) plan.Machine {
	m := plan.Machine{
		Name: name(i), Created: now.Add(-ages + time.Duration(i)*time.Minute),
		Deleting: h.has(deleting), Hook: !h.has(released), HookDue: h.has(due) && !h.has(released),
	}
	if recent {
		m.Created = now.Add(-time.Minute + time.Duration(i)*time.Second)
	}
	if h.has(outdated) {
		m.Outdated = "it is old"
	}
	if h.has(marked) {
		m.Marked = "it does not come"
	}
	if h.stage < settling {
		return m
	}
	lost := h.has(dark) && h.has(old|late)
	m.Node, m.NodeReady, m.NodeSince = m.Name, !lost, now.Add(-ages)
	if h.stage == settling && !h.has(late) {
		m.NodeSince = now.Add(-moment)
	}
	m.Components = components(h, lost)
	if g.external {
		m.Components = m.Components[1:]
	}
	return m
}

func components(h *host, lost bool) []plan.Component {
	health := plan.Healthy
	switch {
	case lost:
		health = plan.Unhealthy
	case h.stage == settling:
		health = plan.Unknown
	}
	all := []plan.Component{{Name: "etcd", Health: health}, {Name: "kube-apiserver", Health: health}, {Name: "kube-scheduler", Health: health}}
	if h.has(down) && !h.has(dark) {
		all[0].Health, all[1].Health = plan.Unhealthy, plan.Unhealthy
	}
	return all
}

// survey is what etcd says of itself.
func (g *group) survey(s *state, o *plan.Observed) {
	if s.count(g.runs) == 0 {
		o.Etcd.Why = "no member answers"
		return
	}
	o.Etcd.Known, o.Etcd.Agreed = true, true
	s.each(func(i int, h *host) {
		if !g.member(h) {
			return
		}
		e := plan.Member{ID: fmt.Sprintf("e%d", i+1), Machine: name(i), Learner: g.learner(h), Leader: int(s.leader) == i+1, Health: plan.Unhealthy, Since: now.Add(-moment)}
		if h.stage >= syncing {
			e.Name = name(i)
		}
		if g.runs(h) {
			e.Health = plan.Healthy
		}
		if h.has(old) || g.voter(h) && g.runs(h) {
			e.Since = now.Add(-ages)
		}
		o.Etcd.Members = append(o.Etcd.Members, e)
	})
	for k, m := range s.strays {
		if m&left == 0 {
			continue
		}
		e := plan.Member{ID: fmt.Sprintf("s%d", k), Learner: m&learns != 0, Health: plan.Unhealthy, Since: now.Add(-moment)}
		if m&named != 0 {
			e.Name = fmt.Sprintf("gone-%d", k)
		}
		if m&oldOne != 0 {
			e.Since = now.Add(-ages)
		}
		o.Etcd.Members = append(o.Etcd.Members, e)
	}
}
