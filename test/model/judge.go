package main

import (
	"fmt"

	"github.com/quorate/quorate/internal/core/plan"
)

// The judge holds decisions and states against the invariants, by the truth. It asks
// neither the rules nor package check.

// judgeState is asked of every state.
func (g *group) judgeState(s *state) string {
	gone := s.count(func(h *host) bool { return h.update == away })
	if s.power.has(letGo | woken) {
		return "" // all machines went, and one is made first
	}
	if g.replicas >= 3 && g.surge == 1 && int(s.faults+s.acts)+gone <= 1 && !(inPast{g}).isRestored(s) && s.marks&rested != 0 && !g.quorum(s) {
		return "the quorum is lost with a single failure"
	}
	if s.count(func(h *host) bool { return h.has(first) && !h.has(deleting) }) > 1 {
		return "two machines initialise a cluster"
	}
	return ""
}

// judgeLook is asked of every decision that is made on the truth.
func (g *group) judgeLook(s *state, t step) string {
	if t.verb == nothing {
		return ""
	}
	if what := (inPast{g}).judge(s, t); what != "" || t.verb == dropChoice {
		return what
	}
	if what, is := (inSleep{g}).judge(s, t); is {
		return what
	}
	if s.rec.has(inCourse) || isOfRecovery(t.verb) {
		return inRecovery{g}.judgeRecovery(s, t)
	}
	if t.verb == recordUpdate || t.verb == dropUpdate {
		return g.judgeEnd(s, t) // nothing that runs is touched
	}
	if s.marks&initialised != 0 && !g.quorum(s) {
		return "something is touched without quorum"
	}
	if what := g.judgeBeside(s, t); what != "" {
		return what
	}
	return g.judgeVerb(s, t)
}

// judgeVerb is what is asked of each kind of step.
func (g *group) judgeVerb(s *state, t step) string {
	switch t.verb {
	case updateInPlace:
		return g.judgeUpdate(s, t)
	case create:
		return g.judgeCreate(s, t)
	case startBootstrap:
		return g.judgeStart(s, &s.hosts[t.on-1])
	case remove:
		return g.judgeDelete(s, t)
	case removeMember:
		return g.judgeLeader(s, t)
	case promoteMember:
		return g.judgePromotion(&s.hosts[t.on-1])
	case releaseHook:
		return g.judgeRelease(s, &s.hosts[t.on-1])
	case addPlaceholder:
		if !s.hosts[t.on-1].has(deleting) {
			return "a placeholder keeps out others than a machine that goes"
		}
	case removePlaceholder:
		return g.judgeFreed(*s)
	case writeAddons:
		if s.count(func(h *host) bool { return h.has(outdated) && !h.has(hidden) })-(inPast{g}).forgotten(s) > 0 {
			return "the addons become newer than a machine"
		}
	case unheard:
		return "a step that has no place here"
	}
	return ""
}

// judgePromotion: a learner is promoted that runs, on a machine that stays.
func (g *group) judgePromotion(h *host) string {
	if h.has(deleting) || !g.runs(h) || !g.learner(h) {
		return "what is promoted is no learner that runs on a machine that stays"
	}
	return ""
}

// judgeRelease: nothing on a machine whose hook is released may cost the quorum any more.
func (g *group) judgeRelease(s *state, h *host) string {
	if !h.has(deleting) {
		return "a hook is released of a machine that stays"
	}
	if s.marks&initialised == 0 {
		return ""
	}
	if g.alone(s, h) {
		return "a hook is released and no other API server answers"
	}
	if g.member(h) {
		return "a hook is released and a member is still there"
	}
	staying, all := g.ballot(s, nil)
	if g.mayYetVote(h) && !g.keptOut(s, h) && staying > all/2 && staying <= (all+1)/2 {
		return fmt.Sprintf("a hook is released of a machine that may yet join, and %d of %d voters would be left", staying, all+1)
	}
	return ""
}

// judgeFreed: without the placeholder no member joins on a released machine whose voter would cost the quorum.
func (g *group) judgeFreed(s state) string {
	before, all := g.ballot(&s, nil)
	s.marks &^= placeholder
	if after, more := g.ballot(&s, nil); before > all/2 && after <= more/2 {
		return fmt.Sprintf("a placeholder is removed, and with those that may then join %d of %d voters would be left", after, more)
	}
	return ""
}

// keptOut: the placeholder keeps a machine out that has not added its learner.
func (g *group) keptOut(s *state, h *host) bool { return s.marks&placeholder != 0 && h.stage == coming }

// alone reports whether of several hosts only this one's API server answers.
func (g *group) alone(s *state, h *host) bool {
	if g.etcdOnly {
		return false
	}
	beside := s.count(func(o *host) bool { return o != h && !o.isUpdating() && (g.serving(o) || g.seems(o)) })
	return g.serving(h) && s.n() > 1 && beside == 0
}

// mayYetVote: kubeadm on a host may be about to add a member, or its learner to be promoted.
func (g *group) mayYetVote(h *host) bool {
	return !g.external && h.stage < voting && !h.has(stuck|removed|over|held)
}

// ballot counts the voters but one: those that run and stay, and all. A voter that goes with a
// machine whose hook was released counts as gone already, and so does one that may yet join on such a machine.
func (g *group) ballot(s *state, but *host) (staying, all int) {
	all = s.strayVoters()
	s.each(func(_ int, h *host) {
		switch {
		case h == but:
		case g.voter(h):
			all++
			if g.runs(h) && !h.has(released) {
				staying++
			}
		case h.has(released) && g.mayYetVote(h) && !g.keptOut(s, h):
			all++
		}
	})
	return staying, all
}

func (g *group) judgeCreate(s *state, t step) string {
	staying := s.count(func(h *host) bool { return !h.has(deleting | hidden) })
	most := g.replicas
	if s.count(func(h *host) bool { return g.isReplaced(h) && !h.has(deleting|hidden) }) > 0 {
		most += g.surge
	}
	inits := s.marks&initialised == 0
	switch {
	case staying >= most:
		return fmt.Sprintf("machine %d of %d is created", staying+1, most)
	case t.hold:
		return g.judgeAhead(s)
	case t.init != inits || inits && s.count(initialises) > 0:
		return "a second cluster is made, or there is nothing to join"
	case !inits && s.spec&kubeadmOld != 0:
		return "a machine would join with an old configuration"
	}
	return ""
}

// initialises: it may initialise the cluster.
func initialises(h *host) bool { return !h.has(held) }

// judgeAhead: only hosts that join what is being initialised are made ahead.
func (g *group) judgeAhead(s *state) string {
	if !g.eager || s.marks&initialised != 0 || s.count(initialises) == 0 {
		return "a machine is made ahead of nothing"
	}
	return ""
}

// judgeStart: who was made ahead joins what is there.
func (g *group) judgeStart(s *state, h *host) string {
	switch {
	case !h.has(held) || h.has(deleting|outdated):
		return "a machine is started that was not made ahead, or that nobody wants"
	case s.marks&initialised == 0:
		return "there is nothing to join"
	case s.spec&kubeadmOld != 0:
		return "a machine would join with an old configuration"
	}
	return ""
}

// judgeDiscard: who is held back and wanted stays.
func (g *group) judgeDiscard(s *state, h *host) string {
	staying := s.count(func(h *host) bool { return !h.has(deleting) })
	if s.count(func(h *host) bool { return initialises(h) && !h.has(deleting) }) == 0 && s.marks&initialised == 0 {
		staying++
	}
	if h.has(marked|outdated) && !h.has(deleting) || staying > g.replicas {
		return ""
	}
	return "a machine that was made ahead and is wanted is deleted"
}

// judgeDelete: enough stay, one change at a time.
func (g *group) judgeDelete(s *state, t step) string {
	gone := s.hosts[t.on-1]
	if gone.has(held) {
		return g.judgeDiscard(s, &gone)
	}
	if s.marks&initialised == 0 {
		return ""
	}
	staying, working, held := g.without(*s, t.on)
	if g.inPlace == plan.InPlaceOnly && staying < g.replicas {
		return "a machine is replaced, and the policy is Only"
	}
	must, whole := g.mustStay(&gone)
	switch {
	case gone.has(deleting):
		return "a machine is deleted twice"
	case g.votes(&gone) && s.count(g.leavingVoter) > kept(g, *s, t.on):
		return "a voter is deleted while another leaves"
	case working+held == 0:
		return "the last complete machine is deleted"
	case staying < must:
		return fmt.Sprintf("%d machines are left of %d", staying, g.replicas)
	case working < whole:
		return fmt.Sprintf("%d complete machines are left of %d in a rollout", working, g.replicas)
	}
	return g.judgeLeader(s, t)
}

// leavingVoter reports whether a voter's host is being deleted, and its hook still holds it.
func (g *group) leavingVoter(h *host) bool { return h.has(deleting) && !h.has(released) && g.voter(h) }

// kept counts the voters whose hosts are being deleted and stay, because no other API server works: 1 or 0.
func kept(g *group, s state, on int8) int {
	_, working, held := g.without(s, on)
	if works := g.seems(&s.hosts[on-1]); !g.etcdOnly && !works && working == 0 && held == 1 && s.count(func(h *host) bool {
		return g.leavingVoter(h) && h.has(due) && g.seems(h)
	}) == 1 {
		return 1
	}
	return 0
}

// without counts what is left when a host goes: machines that stay, those of them that work, and those that work
// and go, but are held by their hooks.
func (g *group) without(s state, on int8) (staying, working, held int) {
	s.hosts[on-1] = host{stage: coming, is: deleting | released}
	s.each(func(_ int, h *host) {
		switch {
		case h.has(hidden):
		case !h.has(deleting):
			staying++
			if g.seems(h) {
				working++
			}
		case !h.has(released) && g.seems(h):
			held++
		}
	})
	return staying, working, held
}

// seems: it does its work, as far as anybody can know: without members it takes a
// while to see that a machine is dark.
func (g *group) seems(h *host) bool {
	return g.works(h) || g.external && h.stage == up && !h.has(old|late)
}

// mustStay is how many must stay, and how many of them complete, when one goes.
func (g *group) mustStay(gone *host) (staying, whole int) {
	serves := g.seems(gone) || g.votes(gone)
	switch {
	case gone.has(marked) && !serves, g.isReplaced(gone) && !serves && gone.stage < settling:
		return 0, 0
	case gone.has(marked), g.isReplaced(gone) && !g.seems(gone):
		return g.replicas - 1, 0
	case g.isReplaced(gone):
		return g.replicas - 1, g.replicas - 1 + g.surge
	}
	return g.replicas, 0
}

// judgeLeader: the voter that goes is not needed, does not lead while another could,
// and does not go while another comes, if it lives and stays.
func (g *group) judgeLeader(s *state, t step) string {
	if t.on <= 0 {
		return g.judgeRemoval(s, t)
	}
	h := &s.hosts[t.on-1]
	running, _ := g.voters(s)
	switch {
	case !g.votes(h):
	case s.leader == t.on && running > 1:
		return "the leader goes while another could lead"
	case h.has(released): // it goes at any moment
	case t.verb == removeMember && s.count(g.learner) > 0:
		return "a voter goes while there is a learner"
	}
	return g.judgeRemoval(s, t)
}

// judgeRemoval: with the voter that goes, the quorum does not.
func (g *group) judgeRemoval(s *state, t step) string {
	if g.external || t.verb != remove && t.verb != removeMember {
		return ""
	}
	before, all := g.ballot(s, nil)
	if before <= all/2 {
		return ""
	}
	rest, staying := *s, 0
	if t.on < 0 {
		rest.strays[-1-t.on] = 0
		staying, all = g.ballot(&rest, nil)
	} else {
		staying, all = g.ballot(&rest, &rest.hosts[t.on-1])
	}
	if staying <= all/2 {
		return fmt.Sprintf("a voter goes that the quorum needs: %d of %d would be left", staying, all)
	}
	return ""
}

// judgeLoss is asked when a host goes: what it takes along was not needed, but for what
// has stopped since its hook was released.
func (g *group) judgeLoss(s *state, h *host) string {
	if s.marks&initialised == 0 || !g.votes(h) || h.has(forced) || !g.quorum(s) {
		return ""
	}
	_, all := g.voters(s)
	left := s.count(g.voter) - 1 + s.tornVoters()
	if left <= all/2 {
		return fmt.Sprintf("a machine goes with a voter that is needed: %d of %d are left", left, all)
	}
	return ""
}

// tornVoters counts the voters whose host went because its hook was taken away.
func (s *state) tornVoters() int {
	n := 0
	for _, m := range s.strays {
		if m&torn != 0 && m&learns == 0 {
			n++
		}
	}
	return n
}

// asWanted: all that the user wants is there, and nothing else.
func (g *group) asWanted(s *state) bool {
	if g.hibernates && s.power.has(asleep) {
		return s.isHibernated()
	}
	whole := s.count(func(h *host) bool {
		return g.works(h) && !h.has(outdated|deleting|marked|hidden) && h.update == noUpdate
	})
	foreign := s.count(func(h *host) bool { return h.has(hidden) && g.member(h) })
	return s.marks&initialised != 0 && whole == g.replicas && s.known() == whole && foreign == 0 && s.spec == 0 &&
		s.strays == [2]stray{} && s.marks&placeholder == 0 && (g.external || s.leader != 0) && inSleep{g}.isAwake(s)
}
