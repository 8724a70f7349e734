package forecast

import (
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// wakes names the recovery by which a group will wake.
const wakes = "by which it wakes"

// sleeper is a world whose group may hibernate.
type sleeper struct{ w *world }

// act lets a step of a hibernation, or of a recovery as a whole, take its effect.
func (z sleeper) act(s plan.Step) {
	w := z.w
	p := &w.o.Power
	switch s.Verb {
	case plan.BeginRecovery:
		w.o.Recovery.Begun = true
	case plan.EndRecovery:
		p.Woken = p.Woken || p.Backup != ""
		p.Requested, p.Backup = time.Time{}, ""
		w.o.Recovery = plan.Recovery{}
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
func (z sleeper) findsSeed() (event, bool) {
	w := z.w
	r := &w.o.Recovery
	return event{of: "recovery", what: "finds its seed", takes: w.t.Step, happens: func() {
		r.Seed, r.Approved = w.o.Power.Backup, w.o.Now
	}}, !w.o.Power.Hibernate && w.o.Power.Backup != "" && r.Name != "" && r.Seed == ""
}

// isPreparing: the group is on its way into hibernation, and asked for the backup from which it wakes.
func (z sleeper) isPreparing() bool {
	p := z.w.o.Power
	return p.Hibernate && p.Backup == "" && !p.Requested.IsZero() && z.w.o.Group.Backup.Required.After(p.Requested)
}

// workersLeave: nothing wants workers any more, and the group waits for their end.
func (z sleeper) workersLeave() bool {
	p := z.w.o.Power
	return p.Hibernate && !p.Requested.IsZero() && len(p.Running) == 0
}
