package main

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

var now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// The ages that matter: a moment, longer than a machine should take, and longer than anybody is patient.
const (
	moment  = time.Second
	quarter = 15 * time.Minute
	ages    = 2 * time.Hour
)

// The chores of a group with kubeadm.
var (
	kubeadmChore = plan.Chore{Name: "KubeadmConfig", Due: plan.DueJoin, Reason: "KubeadmOutdated", Message: "it is old", Inside: true,
		FromSpec: true}
	addonsChore = plan.Chore{Name: "Addons", Due: plan.DueRest, Reason: "AddonsOutdated", Message: "they are old", Inside: true,
		FromSpec: true}
)

// placeholderID is the ID of the placeholder.
const placeholderID = "p1"

func name(i int) string { return fmt.Sprintf("cp-%d", i+1) }

// look is what the controller sees of a state.
func (g *group) look(s *state) plan.Observed {
	n := s.n()
	o := plan.Observed{
		Now:   now,
		Group: plan.Group{Name: "cp", Initialized: s.marks&(initialised|forgotten) == initialised, New: s.marks&initialised == 0, LastMachine: n},
		Want: plan.Want{
			Replicas: g.replicas, NameFormat: "cp-%s",
		},
		Policy: plan.Policy{Learners: true, Eager: g.eager, Surge: g.surge, Overlap: g.overlap, InPlace: g.inPlace,
			Repair: plan.RepairLimits{Most: -1, Healthy: time.Hour}},
		Cluster: plan.Cluster{
			Infrastructure: true, Endpoint: "10.0.0.1:6443", Reachable: g.reachable(s),
		},
	}
	if !g.external {
		o.Etcd.Owner = plan.EtcdOurs
	}
	if g.nodeOnly {
		o.Policy.MaxParallel = 1
	}
	if g.etcdOnly {
		o.Policy.EtcdOnly, o.Cluster.Endpoint, o.Cluster.Reachable = true, "", true
	}
	if !o.Cluster.Reachable {
		o.Cluster.Unreachable, o.Cluster.SilentSince = "connection refused", now.Add(-time.Hour)
		o.Cluster.FailingSince = o.Cluster.SilentSince
	}
	if s.spec&kubeadmOld != 0 {
		o.Cluster.Chores = append(o.Cluster.Chores, kubeadmChore)
	}
	if s.spec&addonsOld != 0 {
		o.Cluster.Chores = append(o.Cluster.Chores, addonsChore)
	}
	o.Machines = make([]plan.Machine, 0, n)
	age := ages
	s.each(func(i int, h *host) {
		if h.has(hidden) {
			return
		}
		age = min(age, h.age())
		m := g.machine(i, h, age, o.Cluster.Reachable)
		inPast{g}.tell(s, i, &m)
		o.Machines = append(o.Machines, m)
	})
	if !g.external {
		g.survey(s, &o)
	}
	s.addRecovery(&o)
	inSleep{g}.add(s, &o)
	inPast{g}.add(s, &o)
	if g.etcdOnly {
		o.AddMembersAsHosts()
	}
	inPast{g}.addChoice(s, &o)
	return o
}

func (g *group) reachable(s *state) bool {
	return (g.external || s.leader != 0) && s.count(g.serving) > 0
}

// age is how long a host has been there, as far as it matters: as long as anybody is patient, unless
// it is on its way.
func (h *host) age() time.Duration {
	switch {
	case h.stage >= settling:
		return ages
	case !h.has(late):
		return time.Minute
	case h.stage == coming && !h.has(over):
		return quarter
	}
	return ages
}

// machine is what is seen of a host that has been there for a while.
func (g *group) machine(i int, h *host, age time.Duration, reachable bool) plan.Machine {
	m := plan.Machine{
		Name: name(i), Created: now.Add(-age + time.Duration(i)*time.Second), CannotJoin: g.cannotJoin(h), Held: h.has(held),
		Deleting: h.has(deleting), Hook: !h.has(released), HookDue: h.has(due) && !h.has(released),
	}
	if h.has(outdated) {
		m.Outdated = "it is old"
	}
	if h.has(marked) {
		m.Marked = "it does not come"
	}
	addUpdate(&m, h)
	if h.stage >= settling && !g.etcdOnly {
		g.addNode(&m, h, reachable)
	}
	return m
}

// addNode is what is seen of a host's Node, and of what it runs.
func (g *group) addNode(m *plan.Machine, h *host, reachable bool) {
	m.Host = m.Name
	lost := !reachable || h.has(dark) && h.has(old|late)
	if reachable {
		m.Ready, m.UpSince = !lost, now.Add(-ages)
		if h.stage == settling && !h.has(late) {
			m.UpSince = now.Add(-moment)
		}
	}
	m.Components = components(h, lost)
	if g.nodeOnly {
		m.Ready = m.Ready && h.stage == up
		m.Components = nodeComponent(m.Ready, lost)
		return
	}
	if g.external {
		m.Components = m.Components[1:]
	}
}

// cannotJoin says why nothing on a host adds a member any more, as far as it can be known.
func (g *group) cannotJoin(h *host) string {
	switch {
	case h.has(removed):
		return "its member was removed"
	case g.member(h) && h.stage >= syncing && !g.etcdOnly:
		return "its etcd has run"
	}
	return ""
}

// components are what a host runs; those of one whose Node is lost are not known.
func components(h *host, lost bool) []plan.Component {
	health := plan.Healthy
	if lost || h.stage == settling {
		health = plan.Unknown
	}
	all := []plan.Component{{Name: "etcd", Health: health}, {Name: "kube-apiserver", Health: health}, {Name: "kube-scheduler", Health: health}}
	if !lost && (h.has(down|removed) || h.update == away) && !h.has(dark) {
		all[0].Health, all[1].Health = plan.Unhealthy, plan.Unhealthy
	}
	return all
}

// nodeComponent is all that a Node tells: an API server is taken to serve where it is ready.
func nodeComponent(ready, lost bool) []plan.Component {
	health := plan.Unhealthy
	switch {
	case lost:
		health = plan.Unknown
	case ready:
		health = plan.Healthy
	}
	return []plan.Component{{Name: "kube-apiserver", Health: health}}
}

// asked: there is a way to ask a host's member; who left with the machine is not asked.
func (g *group) asked(h *host) bool {
	if h.has(hidden) && (g.etcdOnly || h.stage < settling) {
		return false // nothing tells where it runs
	}
	return g.member(h) && h.stage >= syncing && !h.has(released)
}

// answers: a voter says that it is healthy.
func (g *group) answers(s *state, h *host) bool {
	return g.asked(h) && g.runs(h) && s.leader != 0
}

// survey is what etcd says of itself.
func (g *group) survey(s *state, o *plan.Observed) {
	answering := s.count(func(h *host) bool { return g.votes(h) && g.asked(h) })
	if answering == 0 {
		o.Etcd.Why = "no member answers"
		return
	}
	_, all := g.voters(s)
	o.Etcd.Known, o.Etcd.Agreed = true, s.leader != 0 && answering > all/2
	s.each(func(i int, h *host) {
		if g.member(h) {
			o.Etcd.Members = append(o.Etcd.Members, g.seen(s, i, h))
		}
	})
	if s.marks&placeholder != 0 {
		o.Etcd.Members = append(o.Etcd.Members, plan.Member{ID: placeholderID, Learner: true, Placeholder: true, Since: now.Add(-moment)})
	}
	for k, m := range s.strays {
		if m&left != 0 {
			o.Etcd.Members = append(o.Etcd.Members, m.seen(k))
		}
	}
}

// seen is what is known of a member whose host is gone.
func (m stray) seen(k int) plan.Member {
	e := plan.Member{ID: fmt.Sprintf("s%d", k), Learner: m&learns != 0, Since: now.Add(-moment)}
	if m&named != 0 {
		e.Name = fmt.Sprintf("gone-%d", k)
	}
	if m&oldOne != 0 {
		e.Since = now.Add(-ages)
	}
	return e
}

// seen is what is known of a host's member.
func (g *group) seen(s *state, i int, h *host) plan.Member {
	named := inPast{g}.name(s, i)
	e := plan.Member{ID: fmt.Sprintf("e%d", inPast{g}.num(s, i)), Machine: named, Learner: g.learner(h), Leader: int(s.leader) == i+1,
		Since: now.Add(-moment)}
	if h.stage >= syncing {
		e.Name = named
	}
	if h.has(hidden) {
		e.Machine = ""
	}
	switch {
	case g.answers(s, h):
		e.Health, e.InSync = plan.Healthy, e.Learner
	case g.asked(h):
		e.Health = plan.Unhealthy
	}
	if h.has(old) || g.voter(h) && g.answers(s, h) {
		e.Since = now.Add(-ages)
	}
	return e
}
