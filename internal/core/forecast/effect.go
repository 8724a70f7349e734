package forecast

import (
	"slices"
	"strconv"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// act lets a step take its effect.
func (w *world) act(s plan.Step) {
	w.o.Now = w.o.Now.Add(time.Second)
	w.count(s)
	w.elapsed += w.t.Step
	switch s.Verb {
	case plan.Write:
		w.write(s.Chore)
	case plan.Create:
		w.create(s)
	case plan.Adopt:
		w.adopt(s.Machine)
	case plan.MoveLeader, plan.PromoteMember, plan.RemoveMember:
		w.reconfigure(s)
	case plan.AddPlaceholder:
		w.members++
		w.o.Etcd.Members = append(w.o.Etcd.Members, plan.Member{ID: notYet + strconv.Itoa(w.members), Learner: true, Placeholder: true,
			Since: w.o.Now})
	case plan.EnableDowngrade:
		w.o.Etcd.Downgrade = s.Version + ".0"
	case plan.CancelDowngrade:
		w.o.Etcd.Downgrade = ""
	case plan.Compact, plan.Defragment, plan.Disarm:
		w.relieve(s)
	case plan.DropChoice:
		w.o.Choices = slices.DeleteFunc(slices.Clone(w.o.Choices), func(c plan.Choice) bool { return c.Digest == s.Choice })
	case plan.RequestBackup:
		w.requestBackup()
	case plan.BeginRecovery, plan.EndRecovery, plan.BeginHibernation, plan.Hibernate, plan.Wake, plan.EndHibernation:
		sleeper{w}.act(s)
	default:
		if m := w.machine(s.Machine); m != nil {
			w.actOn(m, s)
		}
	}
	w.settleMembers()
}

// actOn lets a step about a machine take its effect.
func (w *world) actOn(m *plan.Machine, s plan.Step) {
	switch s.Verb {
	case plan.StartBootstrap:
		m.Held, m.Started = false, w.o.Now
	case plan.Delete:
		m.Deleting = true
		w.o.Group.Repairing = w.o.Group.Repairing || s.Repair
	case plan.ReleaseHook:
		m.Hook, m.HookDue = false, false
	case plan.GiveUp:
		m.Deleting, m.Hook, m.HookDue = true, false, false
	case plan.UpdateInPlace:
		m.Update = plan.Update{State: plan.UpdateUnderway, Message: "it has begun"}
		if e := w.memberOf(m.Name); e != nil {
			e.Health = plan.Unhealthy // for a while
		}
	case plan.RecordUpdate:
		m.Update = plan.Update{}
		m.Outdated, m.NeedsReplacement = "", ""
	case plan.DropUpdate:
		m.Update = plan.Update{}
	}
}

// write does a chore, and makes due what waited for it.
func (w *world) write(name string) {
	chores := w.o.Cluster.Chores
	i := slices.IndexFunc(chores, func(c plan.Chore) bool { return c.Name == name })
	if i < 0 {
		return
	}
	done := chores[i]
	w.o.Cluster.Chores = slices.Delete(chores, i, i+1)
	if done.Then != "" {
		w.o.Cluster.Chores = append(w.o.Cluster.Chores, plan.Chore{Name: done.Then, Due: plan.DueNow, Reason: done.Then + "Missing",
			Message: "it can be made now"})
	}
}

// create makes a machine.
func (w *world) create(s plan.Step) {
	w.o.Group.LastMachine, w.o.Group.PartialCreate = max(w.o.Group.LastMachine, s.Number), ""
	m := plan.Machine{Name: s.Machine, Domain: s.Domain, Created: w.o.Now, Hook: true, Held: s.Hold, Seeded: s.Seed}
	if s.Seed { // the cluster that it begins has no member yet
		w.o.Etcd.Members, w.o.Etcd.Known, w.o.Cluster.Reachable = nil, false, false
	}
	if w.o.Group.Repairing {
		w.o.Group.Repairing, m.Replaced = false, w.o.Now
	}
	w.o.Machines = append(w.o.Machines, m)
}

// adopt makes the group's own what has no controller. What it is like is read with its next look.
func (w *world) adopt(name string) {
	w.o.Uncontrolled = slices.DeleteFunc(w.o.Uncontrolled, func(m plan.UncontrolledMachine) bool { return m.Name == name })
}

// reconfigure changes etcd's list of members.
func (w *world) reconfigure(s plan.Step) {
	switch e := w.member(s.Member); {
	case e == nil:
	case s.Verb == plan.MoveLeader:
		for i := range w.o.Etcd.Members {
			w.o.Etcd.Members[i].Leader = false
		}
		e.Leader, w.o.Etcd.LeaderMoved = true, w.o.Now
	case s.Verb == plan.PromoteMember:
		w.vote(e)
	default:
		w.o.Etcd.Members = slices.DeleteFunc(w.o.Etcd.Members, func(e plan.Member) bool { return e.ID == s.Member })
		if m := w.machine(s.Machine); m != nil {
			m.CannotJoin = "its member was removed"
		}
	}
}
