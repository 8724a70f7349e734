package forecast

import (
	"github.com/quorate/quorate/internal/core/plan"
)

// wakes names the recovery by which a group will wake.
const wakes = "by which it wakes"

// power lets a step of a hibernation take its effect.
func (w *world) power(s plan.Step) {
	p := &w.o.Power
	switch s.Verb {
	case plan.BeginHibernation:
		p.Requested, p.Running, p.Woken = w.o.Now, nil, false
	case plan.Hibernate:
		p.Backup, p.Taken, p.Since = w.o.Group.Backup.Name, w.o.Group.Backup.Taken, w.o.Now
		w.o.Cluster.Reachable, w.o.Cluster.Unreachable, w.o.Etcd.Known = false, "its machines go", false
	case plan.Wake:
		w.o.Recovery = plan.Recovery{Name: wakes}
		for _, m := range w.o.Machines {
			w.o.Recovery.GiveUp = append(w.o.Recovery.GiveUp, m.Name)
		}
	case plan.EndHibernation:
		w.o.Power = plan.Power{}
	}
}

// findsSeed is what happens to the recovery by which a group wakes: its seed is found, and the spec approves it.
func (w *world) findsSeed() (event, bool) {
	r := &w.o.Recovery
	return event{of: "recovery", what: "finds its seed", takes: w.t.Step, happens: func() {
		r.Seed, r.Approved = w.o.Power.Backup, w.o.Now
	}}, !w.o.Power.Hibernate && w.o.Power.Backup != "" && r.Name != "" && r.Seed == ""
}

// isAskedToHibernate: a backup is taken from which the group wakes.
func (w *world) isAskedToHibernate() bool {
	p, b := w.o.Power, w.o.Group.Backup
	return p.Hibernate && p.Backup == "" && !p.Requested.IsZero() && b.Required.After(p.Requested) && (b.Name == "" || b.Taken.Before(b.Required))
}

// workersLeave: nothing wants workers any more, and the group waits for their end.
func (w *world) workersLeave() bool {
	p := w.o.Power
	return p.Hibernate && !p.Requested.IsZero() && len(p.Running) == 0
}
