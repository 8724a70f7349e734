package main

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// A recovery by a seed: a person asks for it, approves it, changes it, declares machines off and deletes it, whenever and as often as that
// person likes.

// recovery is the requested recovery, and the backup that there is. Hosts are bits, by their index.
type recovery struct {
	is                 progress
	named, off, seeded uint8
}

type progress uint8

const (
	taken    progress = 1 << iota // there is a backup
	verified                      // and it is verified
	asked                         // there is a recovery, with a seed
	approved                      // as it is
	lapsed                        // too long ago to begin
	inCourse                      // it has begun
	seedless                      // no seed was found for it yet
)

// lapse is how old an approval is that has lapsed.
const lapse = 20 * time.Minute

func (r *recovery) has(p progress) bool { return r.is&p != 0 }

// shift forgets a host that is gone.
func (r *recovery) shift(gone int) {
	for _, mask := range []*uint8{&r.named, &r.off, &r.seeded} {
		low := *mask & (1<<gone - 1)
		*mask = low | *mask>>(gone+1)<<gone
	}
}

// end forgets the recovery, and keeps the backup.
func (r *recovery) end() { *r = recovery{is: r.is & (taken | verified)} }

// inRecovery is a group that may be recovered.
type inRecovery struct{ *group }

// addRecovery is what is seen of a recovery.
func (s *state) addRecovery(o *plan.Observed) {
	r := s.rec
	if !r.has(asked) {
		return
	}
	o.Recovery = plan.Recovery{Name: "r", Seed: "b", Begun: r.has(inCourse)}
	switch {
	case !r.has(approved):
	case r.has(lapsed):
		o.Recovery.Approved = now.Add(-lapse)
	default:
		o.Recovery.Approved = now.Add(-time.Minute)
	}
	s.each(func(i int, _ *host) {
		if r.named&(1<<i) != 0 {
			o.Recovery.GiveUp = append(o.Recovery.GiveUp, name(i))
		}
		if r.off&(1<<i) != 0 {
			o.Recovery.Off = append(o.Recovery.Off, name(i))
		}
		o.Machines[i].Seeded = r.seeded&(1<<i) != 0
	})
	for _, e := range o.Etcd.Members { // a person names the members for which no machine is left
		if e.Machine == "" && e.Name != "" {
			o.Recovery.GiveUp = append(o.Recovery.GiveUp, e.Name)
		}
	}
	slices.Sort(o.Recovery.GiveUp)
}

// doRecovery carries out a step of a recovery. Its object is written only as it was seen.
func (g inRecovery) doRecovery(s *state, t step, h *host) {
	switch {
	case t.verb == giveUp && h != nil && (s.rec.has(asked) || s.power.has(letGo)):
		h.set(deleting | due | released | forced)
		h.clear(old)
	case !s.rec.has(asked):
	case t.verb == plantSeed:
		i := s.n()
		s.hosts[i] = fresh(step{init: true, old: t.old})
		s.rec.seeded |= 1 << i
	case !s.rec.has(approved):
	case t.verb == beginRecovery:
		s.rec.is |= inCourse
	case t.verb == endRecovery:
		s.wakesUp()
		s.rec.end()
	}
}

// restores is where a host restores its seed: the cluster that it begins is the only one.
func (g inRecovery) restores(s *state, i int) (stage, string) {
	if !s.rec.has(inCourse) || s.hosts[i].has(deleting) {
		return coming, "" // it is not handed out
	}
	wrong := ""
	s.each(func(k int, h *host) {
		excused := h.has(deleting|released) && s.rec.off&(1<<k) != 0
		if k != i && g.voter(h) && !excused {
			wrong = "a cluster begins beside a machine that may answer"
		}
		if k != i && g.member(h) {
			h.set(removed)
		}
	})
	s.leader, s.strays, s.spec = int8(i)+1, [2]stray{}, 0
	s.marks &^= placeholder
	return voting, wrong
}

// person is what a person does about recoveries, and what becomes of backups.
func (g inRecovery) person(all *moves, s state) {
	if !g.recovers {
		return
	}
	become := func(what string, cost uint8, change func(s *state)) {
		to := s
		if to.acts += cost; int(to.acts) <= g.acts || cost == 0 {
			change(&to)
			all.add(g.group, false, to, what, 0)
		}
	}
	r := s.rec
	g.backups(all, s)
	switch {
	case !r.has(asked):
		if s.marks&initialised != 0 && (r.has(verified) || s.count(g.votes) > 0) {
			become("a person asks for a recovery", 0, func(s *state) { s.rec.is, s.rec.named = s.rec.is|asked, 1<<s.n()-1 })
		}
		return
	case !r.has(approved) || r.has(lapsed):
		become("a person approves the recovery", 0, func(s *state) { s.rec.is = s.rec.is&^lapsed | approved })
	default:
		become("the recovery is changed", 1, func(s *state) { s.rec.is &^= approved })
		if !r.has(inCourse) {
			become("the approval lapses", 1, func(s *state) { s.rec.is |= lapsed })
		}
	}
	become("a person deletes the recovery", 1, (*state).abort)
	s.each(func(i int, h *host) {
		if r.has(inCourse) && h.has(released) && r.off&(1<<i) == 0 {
			become("a person declares a machine off", 1, func(s *state) { s.rec.off, s.rec.is = s.rec.off|1<<i, s.rec.is&^approved })
		}
	})
}

// abort deletes the recovery. Its seed is not handed out any more.
func (s *state) abort() {
	s.each(func(i int, h *host) {
		if s.rec.seeded&(1<<i) != 0 && h.stage == coming {
			h.set(stuck)
		}
	})
	s.rec.end()
}

// backups are taken and verified.
func (g inRecovery) backups(all *moves, s state) {
	to := s
	switch {
	case s.leader != 0 && !s.rec.has(taken):
		to.rec.is |= taken
		all.add(g.group, false, to, "a backup is taken", 0)
	case s.rec.has(taken) && !s.rec.has(verified):
		to.rec.is |= verified
		all.add(g.group, false, to, "the backup is verified", 0)
	}
}

// isOfRecovery: a step is one of a recovery only.
func isOfRecovery(v verb) bool {
	return v == beginRecovery || v == giveUp || v == plantSeed || v == endRecovery
}

// judgeRecovery: a recovery does what a person approved, where the quorum is lost, and leaves no other cluster beside its own.
func (g inRecovery) judgeRecovery(s *state, t step) string {
	r := s.rec
	switch {
	case g.dismisses(s, t):
		return g.judgeLeader(s, t)
	case !isOfRecovery(t.verb):
		return "something else is done while a recovery goes on"
	case !r.has(asked) || !r.has(approved):
		return "a recovery goes on that nobody approved"
	case r.has(inCourse) == (t.verb == beginRecovery):
		return "a recovery begins twice, or goes on before it began"
	}
	switch t.verb {
	case beginRecovery:
		return g.judgeBegun(s)
	case giveUp:
		return judgeGivenUp(s, t)
	case plantSeed:
		return g.judgePlanted(s)
	case endRecovery:
		whole := false
		s.each(func(i int, h *host) { whole = whole || r.seeded&(1<<i) != 0 && !h.has(deleting) && g.works(h) })
		if !whole || s.leader == 0 {
			return "a recovery ends, and no machine serves from the seed"
		}
	}
	return ""
}

// dismisses: the member of a machine that was given up leaves the etcd that the seed began, or hands over.
func (g inRecovery) dismisses(s *state, t step) bool {
	on := t.on
	if t.verb == moveLeader {
		on = s.leader
	}
	if t.verb != moveLeader && t.verb != removeMember || s.rec.seeded == 0 {
		return false
	}
	return on < 0 || on > 0 && s.hosts[on-1].has(deleting) && s.hosts[on-1].has(released)
}

// judgeGivenUp: who is given up was named, or restored the seed and is being deleted.
func judgeGivenUp(s *state, t step) string {
	bit := uint8(1) << (t.on - 1)
	if s.rec.seeded&bit != 0 && !s.hosts[t.on-1].has(deleting) || s.rec.seeded&bit == 0 && s.rec.named&bit == 0 {
		return "a machine is given up that nobody named, or that restores the seed"
	}
	return ""
}

// judgeBegun: the quorum is lost, a person approved it a moment ago, and named every machine.
func (g inRecovery) judgeBegun(s *state) string {
	_, all := g.voters(s)
	answering := s.count(func(h *host) bool { return g.voter(h) && g.answers(s, h) })
	switch {
	case g.reachable(s) || answering > all/2:
		return "a recovery begins, and etcd has a quorum"
	case s.rec.has(lapsed):
		return "a recovery begins that was approved too long ago"
	case s.rec.named != 1<<s.n()-1:
		return "a recovery begins beside a machine that nobody named"
	}
	return ""
}

// judgePlanted: no member may answer any more, but those that were declared off.
func (g inRecovery) judgePlanted(s *state) string {
	wrong := ""
	s.each(func(i int, h *host) {
		bit := uint8(1) << i
		switch {
		case !h.has(deleting) || !h.has(released):
			wrong = "a seed is planted beside a machine that stays"
		case s.rec.off&bit == 0:
			wrong = "a seed is planted, and a machine may answer"
		}
	})
	if g.reachable(s) {
		return "a seed is planted, and an API server answers"
	}
	return wrong
}

// recoveryDecisions are those about a recovery that only a person may take.
var recoveryDecisions = []personalDecision{
	{[]string{"RecoveryUnapproved"}, "", func(_ *group, s *state, _ string) bool { return s.rec.has(inCourse) && !s.rec.has(approved) }},
	{[]string{"RecoveryNotGivenUp"}, "", func(_ *group, s *state, _ string) bool { return s.rec.named|s.rec.seeded != 1<<s.n()-1 }},
	{[]string{"RecoveryFailed", "RecoverySeeding"}, "", func(g *group, s *state, _ string) bool {
		fails := false
		s.each(func(i int, h *host) { fails = fails || s.rec.seeded&(1<<i) != 0 && !g.works(h) })
		return fails || s.leader == 0
	}},
}
