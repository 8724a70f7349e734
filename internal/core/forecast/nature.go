package forecast

import (
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// event is something that happens by itself.
type event struct {
	// of is the machine, or another name, of what it happens to, and what is what happens.
	of, what string
	takes    time.Duration
	happens  func()
	due      time.Duration
}

// events are what happens next by itself, one thing of each machine.
func (w *world) events() []event {
	var all []event
	for i := range w.o.Machines {
		m := &w.o.Machines[i]
		if e, ok := w.eventOf(m); ok {
			e.of = m.Name
			all = append(all, e)
		}
	}
	for _, happens := range []func() (event, bool){w.versionChange, w.backupTaken, w.fallsSilent, sleeper{w}.findsSeed} {
		if e, ok := happens(); ok {
			all = append(all, e)
		}
	}
	if (w.o.Group.Deleting || sleeper{w}.workersLeave()) && len(w.o.Workers) > 0 {
		all = append(all, event{of: "workers", what: "go", takes: w.t.Leave, happens: func() { w.o.Workers = nil }})
	}
	return all
}

// silence is for how long nothing may have served or answered at an endpoint before a seed is planted.
const silence = time.Minute

// fallsSilent is what happens at the endpoint once all machines are given up: nothing answers there any more.
func (w *world) fallsSilent() (event, bool) {
	c := &w.o.Cluster
	since := w.o.Now.Add(-silence)
	isSilent := !c.SilentSince.IsZero() && !c.SilentSince.After(since) && !c.FailingSince.After(since)
	stays := slices.ContainsFunc(w.o.Machines, func(m plan.Machine) bool { return !m.Deleting })
	if !w.o.Recovery.Begun || w.o.Policy.EtcdOnly || c.Reachable || isSilent || stays {
		return event{}, false
	}
	takes := silence
	if !c.FailingSince.IsZero() {
		takes = max(0, min(silence, c.FailingSince.Sub(since)))
	}
	return event{of: "endpoint", what: "falls silent", takes: takes, happens: func() { c.SilentSince, c.FailingSince = since, since }}, true
}

// eventOf is what happens to a machine next by itself.
func (w *world) eventOf(m *plan.Machine) (event, bool) {
	switch {
	case m.Deleting && !m.Hook:
		return event{what: "leaves", takes: w.t.Leave, happens: func() { w.leave(m.Name) }}, true
	case m.Deleting && !m.HookDue:
		return event{what: "is drained", takes: w.t.Drain, happens: func() { m.HookDue = true }}, true
	case m.Deleting:
		return event{}, false
	case m.Update.State == plan.UpdateUnderway:
		return event{what: "is updated", takes: w.t.Update, happens: func() { w.updated(m) }}, true
	case m.Updating != "":
		return event{what: "is changed by somebody else", takes: w.t.Update,
			happens: func() { m.Updating, m.Outdated, m.NeedsReplacement = "", "", "" }}, true
	}
	return w.joining(m)
}

// joining is what happens next to a machine that comes up.
func (w *world) joining(m *plan.Machine) (event, bool) {
	switch {
	case m.Failed != "", m.Held && m.Host == "", m.Host != "" && !w.comesUp(m):
		return event{}, false
	case !w.o.Etcd.Ours(), m.Host != "", m.Seeded && !w.o.Etcd.Known, !w.o.Group.Initialized && w.isFirst(m):
		return event{what: "joins", takes: w.t.Join, happens: func() { w.up(m) }}, true
	}
	e := w.memberOf(m.Name)
	if e == nil {
		return event{what: "joins", takes: w.t.Join * 3 / 4, happens: func() { w.add(m) }}, m.CannotJoin == "" && w.takesMember()
	}
	return w.rising(e)
}

// rising is what happens next to a member whose machine comes up.
func (w *world) rising(e *plan.Member) (event, bool) {
	switch {
	case e.Name == "":
		return event{what: "starts", happens: func() { w.start(e) }}, w.o.Etcd.Downgrade == ""
	case e.Learner && !e.InSync:
		return event{what: "catches up", happens: func() { w.start(e) }}, true
	}
	return event{what: "votes", takes: w.t.Join / 4, happens: func() { w.vote(e) }}, !e.Learner || !w.o.Policy.EtcdOnly
}

// isFirst: a machine is the one that initialises the cluster.
func (w *world) isFirst(m *plan.Machine) bool {
	first := slices.IndexFunc(w.o.Machines, func(o plan.Machine) bool { return !o.Held && !o.Deleting })
	return first >= 0 && w.o.Machines[first].Name == m.Name
}

// joins is the standing of a machine that is on its way, and not late.
const joins plan.Standing = "Joining"

// comesUp: a machine is up, and not all that it will be: it joins, or one that replaces others has not passed its gates.
func (w *world) comesUp(m *plan.Machine) bool {
	i := slices.IndexFunc(w.o.Machines, func(o plan.Machine) bool { return o.Name == m.Name })
	switch standing := plan.Assess(w.o).Machines[i]; {
	case standing.Standing == joins:
		return true
	case !standing.Complete():
		return false
	}
	return m.Outdated == "" && (m.Gate != "" || !m.Ready)
}

// takesMember: etcd takes another member, one learner at a time, that can read its data.
func (w *world) takesMember() bool {
	want := minor(w.o.Want.EtcdVersion)
	for _, e := range w.o.Etcd.Members {
		if e.Learner || e.Name == "" || want > 0 && dataMinor(e) > want {
			return false
		}
	}
	return true
}

// add puts the member of a machine into etcd's list.
func (w *world) add(m *plan.Machine) {
	w.members++
	e := plan.Member{ID: notYet + strconv.Itoa(w.members), Machine: m.Name, Learner: w.o.Policy.Learners || w.o.Policy.EtcdOnly,
		Since: w.o.Now}
	w.o.Etcd.Members = append(w.o.Etcd.Members, e)
}

// start runs the etcd of a member, which brings its data up to date.
func (w *world) start(e *plan.Member) {
	e.Name, e.Health, e.Why, e.InSync, e.Since = hostOf(w.machine(e.Machine), e.Machine), plan.Healthy, "", e.Learner, w.o.Now
	if v := minor(w.o.Want.EtcdVersion); v > 0 && e.Version == "" {
		e.Version, e.Storage = versionText(v), ""
		if v >= tellsStorage {
			e.Storage = versionText(w.etcdMinor())
		}
	}
}

// vote makes a member a voter, and its machine all that it should be.
func (w *world) vote(e *plan.Member) {
	e.Learner, e.InSync, e.Since = false, false, w.o.Now
	if m := w.machine(e.Machine); m != nil {
		w.up(m)
	}
}

// up makes a machine all that it should be. The first one makes a cluster.
func (w *world) up(m *plan.Machine) {
	m.Host, m.Ready, m.Gate = hostOf(m, m.Name), true, ""
	if m.UpSince.IsZero() {
		m.UpSince = w.o.Now
	}
	m.Components = w.components()
	w.o.Group.Initialized, w.o.Group.New = true, false
	w.o.Cluster.Reachable, w.o.Cluster.Unreachable, w.o.Cluster.Initializing = true, "", ""
	w.o.Cluster.SilentSince, w.o.Cluster.FailingSince = time.Time{}, time.Time{}
	if !w.o.Etcd.Ours() {
		return
	}
	w.o.Etcd.Known, w.o.Etcd.Agreed, w.o.Etcd.Why = true, true, ""
	if w.memberOf(m.Name) == nil {
		w.add(m)
		w.o.Etcd.Members[len(w.o.Etcd.Members)-1].Learner = false
	}
	e := w.memberOf(m.Name)
	w.start(e)
	e.Learner, e.InSync = false, false
}

// components are those of a machine on which all is well.
func (w *world) components() []plan.Component {
	names := []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"}
	switch {
	case w.o.Policy.EtcdOnly:
		names = []string{plan.EtcdComponent}
	case w.o.Etcd.Ours():
		names = append([]string{plan.EtcdComponent}, names...)
	}
	all := make([]plan.Component, 0, len(names))
	for _, name := range names {
		all = append(all, plan.Component{Name: name, Health: plan.Healthy})
	}
	return all
}

// updated ends an update in place: what runs on the machine is back. With the last one kubeadm updates the add-ons as well, and not before.
func (w *world) updated(m *plan.Machine) {
	if !slices.ContainsFunc(w.o.Machines, func(o plan.Machine) bool { return o.Name != m.Name && o.Outdated != "" }) {
		w.o.Cluster.Chores = slices.DeleteFunc(w.o.Cluster.Chores, func(c plan.Chore) bool { return c.FromSpec && c.Due == plan.DueRest })
	}
	m.Update = plan.Update{State: plan.UpdateDone, Message: "verified"}
	w.up(m)
}

// leave ends a machine, and what ran on it.
func (w *world) leave(name string) {
	w.o.Machines = slices.DeleteFunc(w.o.Machines, func(m plan.Machine) bool { return m.Name == name })
	for i := range w.o.Etcd.Members {
		if e := &w.o.Etcd.Members[i]; e.Machine == name {
			e.Machine, e.Health, e.Leader, e.Since = "", plan.Unhealthy, false, w.o.Now
		}
	}
}

// settleMembers lets etcd have a leader, and machines that have nothing else what their members say.
func (w *world) settleMembers() {
	if w.o.Policy.EtcdOnly {
		w.o.AddMembersAsHosts()
	}
	led := slices.ContainsFunc(w.o.Etcd.Members, func(e plan.Member) bool { return e.Leader })
	for i := range w.o.Etcd.Members {
		if e := &w.o.Etcd.Members[i]; !led && !e.Learner && e.Health == plan.Healthy {
			e.Leader, led = true, true
		}
	}
}

// hostOf is the name of a machine in its cluster.
func hostOf(m *plan.Machine, otherwise string) string {
	if m != nil && m.Host != "" {
		return m.Host
	}
	return otherwise
}
