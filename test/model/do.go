package main

import (
	"strconv"

	"github.com/quorate/quorate/internal/core/plan"
)

// A step is what was decided, in terms of a state.
type step struct {
	verb verb
	on   int8 // 1 + the index of a host; below zero: -1 - that of a stray
	init bool
	hold bool // what is created is made ahead
	old  bool // the spec was changed since it was decided

	// Where the management cluster is restored:
	num    uint8 // in the name of what is created
	repair bool  // what is deleted is given up, and replaced
}

type verb uint8

const (
	nothing verb = iota
	create
	startBootstrap
	remove // a machine
	moveLeader
	removeMember
	promoteMember
	addPlaceholder
	removePlaceholder
	releaseHook
	writeKubeadm
	writeAddons
	updateInPlace
	recordUpdate
	dropUpdate
	beginRecovery
	giveUp
	plantSeed
	endRecovery
	dropChoice
	beginHibernation
	requestBackup
	hibernate
	wake
	endHibernation
	unheard // of, here
)

// verbs are the steps that the model knows, by their actions.
var verbs = map[string]verb{
	"Wait": nothing, "Nothing": nothing, "Create": create, "StartBootstrap": startBootstrap, "Delete": remove,
	"MoveLeader": moveLeader, "RemoveMember": removeMember, "PromoteMember": promoteMember, "AddPlaceholder": addPlaceholder,
	"ReleaseHook":        releaseHook,
	"WriteKubeadmConfig": writeKubeadm, "WriteAddons": writeAddons,
	"UpdateInPlace": updateInPlace, "RecordUpdate": recordUpdate, "DropUpdate": dropUpdate,
	"BeginRecovery": beginRecovery, "GiveUp": giveUp, "EndRecovery": endRecovery, "DropChoice": dropChoice,
	"BeginHibernation": beginHibernation, "RequestBackup": requestBackup, "Hibernate": hibernate, "Wake": wake,
	"EndHibernation": endHibernation,
}

// stepOf reads a decision's step.
func stepOf(s plan.Step) step {
	v, known := verbs[s.Action()]
	if !known {
		return step{verb: unheard}
	}
	if v == removeMember && s.Member == placeholderID {
		return step{verb: removePlaceholder}
	}
	if s.Seed {
		v = plantSeed
	}
	t := step{verb: v, init: s.Init, hold: s.Hold}
	switch v {
	case remove, giveUp, addPlaceholder, releaseHook, startBootstrap, updateInPlace, recordUpdate, dropUpdate:
		n, _ := strconv.Atoi(s.Machine[len("cp-"):])
		t.on = int8(n)
	case moveLeader, removeMember, promoteMember:
		n, _ := strconv.Atoi(s.Member[1:])
		t.on = int8(n)
		if s.Member[0] == 's' {
			t.on = int8(-1 - n)
		}
	}
	return t
}

// shift forgets a host that is gone.
func (t *step) shift(gone int) {
	switch j := int8(gone) + 1; {
	case t.on == j:
		*t = step{}
	case t.on > j:
		t.on--
	}
}

// do carries a step out, as far as the world lets it.
func (g *group) do(s state, t step) state {
	s.pending, s.age = step{}, 0
	h := s.host(t.on)
	switch t.verb {
	case create:
		inPast{g}.create(&s, t)
	case startBootstrap:
		h.clear(held | late)
	case remove:
		g.delete(h)
	case releaseHook:
		h.set(released)
		h.clear(old)
	case moveLeader:
		g.moveLeader(&s, t.on, h)
	case promoteMember:
		if h != nil && s.leader != 0 && g.learner(h) && g.runs(h) {
			h.stage = up
			h.clear(old | late)
		}
	case removeMember, addPlaceholder, removePlaceholder:
		g.changeList(&s, t, h)
	case updateInPlace, recordUpdate, dropUpdate:
		doUpdate(t.verb, h)
	case beginHibernation, requestBackup, hibernate, wake, endHibernation, beginRecovery, giveUp, plantSeed, endRecovery:
		inSleep{g}.do(&s, t, h)
	default:
		s.spec &^= written(t)
	}
	inPast{g}.note(&s, t)
	g.settle(&s)
	return s
}

// host returns the host of a number; nil: the step is about none.
func (s *state) host(on int8) *host {
	if on > 0 {
		return &s.hosts[on-1]
	}
	return nil
}

// moveLeader makes a host lead, if there is a leader and a voter runs there.
func (g *group) moveLeader(s *state, on int8, h *host) {
	if h != nil && s.leader != 0 && g.votes(h) {
		s.leader = on
	}
}

// fresh is a host as it is created: of the spec that was wanted when that was decided.
func fresh(t step) host {
	h := host{stage: coming}
	if t.init {
		h.set(first)
	}
	if t.hold {
		h.set(held)
	}
	if t.old {
		h.set(outdated)
	}
	return h
}

// written is what a step brings up to date.
func written(t step) spec {
	switch {
	case t.verb == writeKubeadm && !t.old:
		return kubeadmOld
	case t.verb == writeAddons && !t.old:
		return addonsOld
	}
	return 0
}

// changeList adds a placeholder or removes a member, if etcd lets it.
func (g *group) changeList(s *state, t step, h *host) {
	switch {
	case t.verb == removeMember:
		g.take(s, t, h)
	case t.verb == addPlaceholder && g.mayAdd(s):
		s.marks |= placeholder
	case t.verb == removePlaceholder && s.leader != 0:
		s.marks &^= placeholder
	}
}

// take removes a member, if etcd lets it.
func (g *group) take(s *state, t step, h *host) {
	switch {
	case s.leader == 0:
	case h == nil:
		s.strays[-1-t.on] = 0
	case g.voter(h) && g.runs(h) && !g.maySpare(s):
	default:
		h.set(removed)
		h.clear(down)
		if h.stage < up && !h.has(dark) {
			h.set(stuck) // kubeadm waits for a member that will never be
		}
	}
}

// maySpare is etcd's gate for the removal of a voter that runs.
func (g *group) maySpare(s *state) bool {
	running, all := g.voters(s)
	return running-1 >= 1+(all-1)/2
}
