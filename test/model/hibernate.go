package main

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// A hibernation: a person wants that no machine runs, and changes that, whenever and as often as that person likes. What keeps workers
// wants none then, a backup is taken once they are gone, and the machines go. To run again the group requests a recovery by that backup.

// power is whether the machines are to run, and how far the hibernation is.
type power uint8

const (
	asleep   power = 1 << iota // no machine is to run
	wanting                    // what keeps workers wants some
	working                    // there are some
	onWay                      // that it is to hibernate is noted
	required                   // and since its workers are gone the group needs a backup
	fetched                    // of which there is a verified one
	letGo                      // that is noted, and machines go, or are gone
	woken                      // it serves from that backup
)

func (p power) has(f power) bool { return p&f != 0 }

// inSleep is a group that may hibernate.
type inSleep struct{ *group }

// add adds what is seen of the hibernation.
func (g inSleep) add(s *state, o *plan.Observed) {
	if !g.hibernates {
		return
	}
	p, before := s.power, func(minutes time.Duration) time.Time { return now.Add(-minutes * time.Minute) }
	o.Power.Hibernate, o.Power.Woken = p.has(asleep), p.has(woken)
	o.Group.Backup.Name, o.Group.Backup.Taken = "older", before(50)
	if p.has(onWay) {
		o.Power.Requested = before(30)
	}
	if p.has(required) {
		o.Group.Backup.Required = before(20)
	}
	if p.has(fetched) {
		o.Group.Backup.Name, o.Group.Backup.Taken = "b", before(10)
	}
	if p.has(letGo) {
		o.Power.Backup, o.Power.Taken, o.Power.Since = "b", before(10), before(5)
	}
	if p.has(wanting) {
		o.Power.Running = []string{"md-0"}
	}
	if p.has(working) {
		o.Workers = []string{"worker-1"}
	}
	if !s.rec.has(asked) {
		return
	}
	o.Recovery.Approved = time.Time{}
	if s.isWake() {
		o.Recovery.Approved = now
	}
	if s.rec.has(seedless) {
		o.Recovery.Seed = ""
	}
}

// isWake reports whether what a person wants of a group's power approves the recovery by which it wakes.
func (s *state) isWake() bool { return s.rec.has(inCourse) || !s.power.has(asleep) }

// do carries out a step of a hibernation, or of a recovery. The group's object is written only as it was seen: whether machines are to run
// is in it.
func (g inSleep) do(s *state, t step, h *host) {
	p := &s.power
	switch t.verb {
	case beginHibernation:
		if p.has(asleep) {
			*p = *p&^(wanting|required|fetched|woken) | onWay
		}
	case requestBackup:
		if p.has(asleep) {
			*p = *p&^fetched | required
		}
	case hibernate:
		if p.has(asleep) {
			*p |= letGo
		}
	case wake:
		if !s.rec.has(asked) {
			s.rec.is |= asked | approved | seedless
			s.rec.named = 1<<s.n() - 1
		}
	case endHibernation:
		if *p |= wanting; !p.has(asleep) {
			*p &= wanting | working
		}
	default:
		inRecovery(g).doRecovery(s, t, h)
	}
}

// wakesUp notes that the group serves from its backup, before its recovery ends.
func (s *state) wakesUp() {
	if s.power.has(letGo) {
		s.power = s.power&(asleep|wanting|working) | woken
	}
}

// nature is what works beside the controller.
func (g inSleep) nature(all *moves, s state) {
	if !g.hibernates {
		return
	}
	become := func(what string, change func(s *state)) {
		to := s
		change(&to)
		all.add(g.group, true, to, what, 0)
	}
	p := s.power
	if p.has(wanting) != p.has(working) && (g.reachable(&s) || p.has(working)) {
		become("workers come or go", func(s *state) { s.power ^= working })
	}
	if p.has(required) && !p.has(fetched) && s.leader != 0 {
		become("a verified backup is taken", func(s *state) { s.power |= fetched })
	}
	if s.rec.has(seedless) {
		become("the seed is found", func(s *state) { s.rec.is &^= seedless })
	}
}

// person is what a person does about a hibernation.
func (g inSleep) person(all *moves, s state) {
	if s.acts++; !g.hibernates || int(s.acts) > g.acts {
		return
	}
	become := func(what string, change func(s *state)) {
		to := s
		change(&to)
		all.add(g.group, false, to, what, 0)
	}
	become("a person wants the machines to run, or not to", func(s *state) { s.power ^= asleep })
	if s.power.has(asleep) && !s.power.has(wanting) {
		become("a person scales the workers up", func(s *state) { s.power |= wanting })
	}
	if s.rec.has(asked) {
		become("a person deletes the recovery", (*state).abort)
	}
}

// isAwake: no hibernation is under way, and the workers are there.
func (g inSleep) isAwake(s *state) bool {
	return !g.hibernates || s.power == wanting|working && !s.rec.has(asked)
}

// isHibernated: nothing runs, and the backup from which the group wakes is noted.
func (s *state) isHibernated() bool { return s.power.has(letGo) && s.n() == 0 && !s.rec.has(inCourse) }

// sleepSteps are the steps of a hibernation, when each is wrong in truth, and what is then said.
var sleepSteps = map[verb]struct {
	wrong func(g *group, s *state) bool
	what  string
}{
	beginHibernation: {func(_ *group, s *state) bool { return !s.power.has(asleep) || s.power.has(letGo) },
		"workers are scaled down, and nobody wants that"},
	requestBackup: {func(_ *group, s *state) bool { return s.power.has(wanting | working) },
		"a backup is asked for, and workers may still write"},
	hibernate: {func(g *group, s *state) bool {
		return !s.power.has(asleep) || s.power.has(wanting|working) || !s.power.has(fetched) || !g.quorum(s)
	}, "machines are to go that run, or whose data are in no backup"},
	giveUp: {func(_ *group, s *state) bool { return !s.power.has(letGo) }, "a machine is let go without a backup"},
	wake: {func(_ *group, s *state) bool {
		staying := s.count(func(h *host) bool { return !h.has(deleting) || !h.has(released) })
		return s.power.has(asleep) || !s.power.has(letGo) || s.rec.has(asked) || staying > 0
	}, "a group is woken that is to sleep, or does not"},
	endHibernation: {func(_ *group, s *state) bool { return s.power.has(asleep|letGo) || !s.power.has(onWay|woken) },
		"a hibernation ends that goes on, or was none"},
}

// judge holds a step of a hibernation, or one that is taken beside it, against the truth, and reports whether nothing else is to be asked.
func (g inSleep) judge(s *state, t step) (what string, is bool) {
	if !g.hibernates || s.rec.has(inCourse) {
		return "", false
	}
	if step, is := sleepSteps[t.verb]; is {
		if step.wrong(g.group, s) {
			return step.what, true
		}
		return "", true
	}
	switch {
	case t.verb == beginRecovery:
		if !s.power.has(letGo) || s.power.has(asleep) {
			return "a recovery begins, and nobody wants the group to wake", true
		}
	case s.power.has(letGo):
		return "something else is done while the machines of a hibernated group go", true
	case s.power.has(asleep) && slices.Contains([]verb{create, startBootstrap, remove, updateInPlace}, t.verb):
		return "something is begun for a group that is to hibernate", true
	}
	return "", false
}
