package sim

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What the oracle says of updates in place.

// judgeUpdates holds a step against what updates need, and against what is under way.
func (w *World) judgeUpdates(s plan.Step, fresh bool) {
	h := w.named(s.Machine)
	switch {
	case w.ending():
	case s.Verb == plan.UpdateInPlace && h.isBegunInPart():
		w.judgeWhole(h, s, fresh)
	case s.Verb == plan.UpdateInPlace && h != nil:
		w.judgeUpdate(h, s, fresh)
	case s.Verb == plan.RecordUpdate && fresh && (h == nil || h.update == nil || !h.update.done):
		w.blame("%s, and no update is done", s)
	case s.Verb == plan.DropUpdate && fresh:
		w.judgeDrop(h, s)
	case fresh:
		w.judgeBesideUpdate(h, s)
	}
}

// judgeDrop: only what failed is forgotten, and only what is not wanted any more.
func (w *World) judgeDrop(h *host, s plan.Step) {
	switch {
	case h == nil || !h.hasFailedUpdate() || h.update.spec == w.spec && w.isChangedInPlace(h) && !w.sawExtension:
		w.blame("%s, which a person must see", s)
	case h.update.changed && h.spec == w.spec:
		w.blame("%s, which has left the host of spec %d", s, h.update.spec)
	}
}

// judgeUpdate: one at a time, as the user wants it, while all are well.
func (w *World) judgeUpdate(h *host, s plan.Step, fresh bool) {
	if o := w.updating(h); o != nil {
		w.blame("%s, and %s is being updated", s, o.name)
	}
	if !fresh {
		return
	}
	w.judgeUpdateAround(s)
	switch {
	case !w.isChangedInPlace(h):
		w.blame("%s, with the policy %q, of spec %d where %d is wanted", s, w.setup.InPlace, h.spec, w.spec)
	case h.update != nil:
		w.blame("%s, which has an update that nobody has seen to", s)
	case s.First && slices.ContainsFunc(w.hosts, func(o *host) bool { return w.isStaying(o) && o.spec == w.spec }):
		w.blame("%s, and another is of spec %d already", s, w.spec)
	case w.inSight() > 1:
		w.judgeUpdateCompany(h, s)
	}
}

// judgeUpdateAround: the group stays, the cluster answers, and nothing is missing or behind that an update reads.
func (w *World) judgeUpdateAround(s plan.Step) {
	switch {
	case w.lasts(HoldUpdates, 0):
		w.blame("%s, and a person holds updates", s)
	case w.deleting:
		w.blame("%s, and the group is being deleted", s)
	case w.lost() || !w.reachable():
		w.blame("%s, and the cluster does not answer", s)
	case w.kubeadm != w.spec || w.forbidden:
		w.blame("%s, and what machines read is not up to date", s)
	case w.lasts(Invalid, 0) || w.lasts(NoAuthority, 0):
		w.blame("%s, and the spec is refused, or an authority is missing", s)
	case w.isUnsound() != "":
		w.blame("%s, and %s", s, w.isUnsound())
	}
}

// isOutOfSight: a host cannot be seen, and no member in the list tells of it; or a person decided to wait for it no longer.
func (h *host) isOutOfSight() bool {
	return h.unawaited || !h.hidden.IsZero() && (h.member == nil || h.member.removed)
}

// inSight counts the hosts of which something tells.
func (w *World) inSight() int { return w.count(func(h *host) bool { return !h.isOutOfSight() }) }

// judgeUpdateCompany: none comes, goes or ails, and the quorum is the others'.
func (w *World) judgeUpdateCompany(h *host, s plan.Step) {
	seen := 0
	for _, o := range w.hosts {
		if o.isOutOfSight() {
			continue
		}
		seen++
		if !w.staysWell(o) {
			w.blame("%s, and %s is not well", s, o.name)
		}
	}
	if w.setup.External || seen == 1 {
		return
	}
	if w.hasLearner() || len(w.members) != seen {
		w.blame("%s, and a member comes or belongs to no machine", s)
	}
	if staying, all := w.ballot(h.member); staying <= (all+1)/2 {
		w.blame("%s, and %d of %d voters would answer", s, staying, all+1)
	}
	if h.member == w.leader {
		w.blame("%s, whose member leads", s)
	}
}

// staysWell: a host has come up and works, nothing is known against it, and it is not to go.
func (w *World) staysWell(h *host) bool {
	return w.isStaying(h) && h.stage == up && !h.hasFailedUpdate() && h.marked == "" && !h.gate && h.unready.IsZero() && w.works(h)
}

// seenUpdated is a host whose update is carried out, and can be seen: the host has not lost its labels. Nil: there is none.
func (w *World) seenUpdated() *host {
	if h := w.carriedOut(); h != nil && h.hidden.IsZero() {
		return h
	}
	return nil
}

// judgeBesideUpdate: nothing begins beside an update, and no host goes that lives.
func (w *World) judgeBesideUpdate(h *host, s plan.Step) {
	updated := w.seenUpdated()
	if updated == nil {
		return
	}
	m := w.memberByID(s.Member)
	switch s.Verb {
	case plan.Create, plan.StartBootstrap, plan.PromoteMember:
		w.blame("%s, while %s is updated", s, updated.name)
	case plan.MoveLeader:
		if w.leadsBesideUpdate(m, updated) {
			w.blame("%s, while %s is updated", s, updated.name)
		}
	case plan.RemoveMember:
		if m != nil && m.host != updated && w.isLivingVoter(m) && !w.isDoomed(m.host) {
			w.blame("%s, which lives, while %s is updated", s, updated.name)
		}
	case plan.Delete:
		if h != nil && h != updated && w.mayAnswer(h) {
			w.blame("%s, which lives, while %s is updated", s, updated.name)
		}
	}
}

// leadsBesideUpdate: the member of a host that is updated becomes the leader. etcd elects it anyway when a leader has gone whose host goes
// at any moment.
func (w *World) leadsBesideUpdate(m *member, updated *host) bool {
	return m != nil && m.host == updated && (w.leader == nil || !w.isDoomed(w.leader.host))
}

// judgeKept: what the user wants to be changed in place is not replaced.
func (w *World) judgeKept(gone *host, s plan.Step) {
	staying := w.count(w.isStaying)
	switch {
	case staying > w.replicas, gone.held:
	case w.setup.InPlace == plan.InPlaceOnly:
		w.blame("%s, and the policy is Only", s)
	case gone.marked == "" && gone.spec != w.spec && !w.isReplaced(gone):
		w.blame("%s, which is not to be replaced: the policy is %s", s, w.setup.InPlace)
	}
}

// judgeAway is asked when a host goes away for its update: the quorum stays, unless something else has failed since it began.
func (w *World) judgeAway(h *host) {
	running, all := w.voters()
	others := w.count(func(o *host) bool { return o != h && (o.ails() || o.deleting || !w.works(o)) })
	gone := slices.ContainsFunc(w.members, func(m *member) bool { return !m.learner && !slices.Contains(w.hosts, m.host) })
	if !w.setup.External && all > 1 && running <= all/2 && others == 0 && !gone && all == h.update.voters {
		w.blame("%s goes away for its update, and %d of %d voters are left", h.name, running, all)
	}
}

// judgeUpdateDue: the rules do not wait with an update that can be recorded or begun.
func (w *World) judgeUpdateDue(d plan.Decision) {
	for _, h := range w.hosts {
		if w.isStaying(h) && h.update != nil && h.update.done && d.Step.Verb != plan.RecordUpdate && !isOfRecovery(d.Step) {
			w.blame("%s, and what was made of %s is not recorded", d, h.name)
		}
	}
	due := func(h *host) bool { return w.isChangedInPlace(h) && !w.isHeldByLimit(h) }
	held := w.isUnapproved() || (windowed{w}).isClosed() || (gate{w}).holds() || w.lasts(HoldUpdates, 0)
	if d.Step.Verb == plan.Wait && w.isCalm() && !held && slices.ContainsFunc(w.hosts, due) {
		w.blame("%s, and a machine could be updated", d)
	}
}

// isCalm: every host is well for long, and nothing is under way.
func (w *World) isCalm() bool {
	if !w.isClear() || len(w.hosts) != w.replicas || w.lasts(Invalid, 0) || w.lasts(NoAuthority, 0) || w.replicas == 2 ||
		w.isUnsound() != "" || w.hasLearner() {
		return false
	}
	return !slices.ContainsFunc(w.hosts, func(h *host) bool { return !w.isPlainlyWell(h) })
}

// isPlainlyWell: it can be seen that a host has been well for long, and that no change of it goes on.
func (w *World) isPlainlyWell(h *host) bool {
	touched := h.update != nil || h.gate || w.lasts(Update, h.number) || w.lasts(Trouble, h.number)
	return !touched && w.isWell(h) && w.works(h) && w.hasOwnVoter(h) && !w.isNodeLost(h) && w.now.Sub(h.node) >= 6*time.Minute
}

// isFailedForPerson: a host's update failed, and is still wanted, or has left the host of a spec that is not.
func (w *World) isFailedForPerson(h *host) bool {
	if !w.isStaying(h) || !h.hasFailedUpdate() || h.update.byExtension {
		return false
	}
	return h.update.spec == w.spec && w.isChangedInPlace(h) && !w.byExtension() || h.update.changed && h.spec == w.spec
}

// isKeptForPerson: a host is broken, marked or cannot be changed in place, and only a person may have it replaced.
func (w *World) isKeptForPerson(h *host) bool {
	return w.setup.InPlace == plan.InPlaceOnly && w.isStaying(h) && (h.ails() || h.spec != w.spec && (w.isFixed(h) || h.node.IsZero()))
}

// isForOthers: somebody else updates a host.
func (w *World) isForOthers(h *host) bool {
	return w.setup.InPlace == plan.InPlaceExternal && h.spec != w.spec && w.isStaying(h)
}
