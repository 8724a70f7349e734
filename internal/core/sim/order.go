package sim

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What is due comes first: where the truth leaves no doubt that something urgent can be done, it is
// done before anything else is, without a wait.

// isBeforeAll: the step comes before whatever is due.
func isBeforeAll(s plan.Step) bool {
	return s.Verb == plan.Adopt || s.Verb == plan.RecordUpdate || s.Verb == plan.DropUpdate || writes(s, certificates) || writes(s, kubeconfig)
}

// judgeSeen holds a step against what was seen: whatever was hidden may be the worst.
func (w *World) judgeSeen(o plan.Observed, d plan.Decision) {
	s := d.Step
	if !w.needsSight(o, s) {
		return
	}
	external := w.setup.External
	if !o.Cluster.Reachable && (!external || s.Verb != plan.ReleaseHook) {
		w.blame("%s, and the API server does not answer", s)
	}
	if !external && !writes(s, permissions) && !writes(s, etcdPods) { // those of the etcd before are gone, whatever this one says
		w.judgeProven(o, s)
	}
}

// needsSight: a step is one for which the cluster must be seen: there is one, which stays, and the step does not come before all else.
func (w *World) needsSight(o plan.Observed, s plan.Step) bool {
	wakes := s.Verb == plan.Wake || s.Verb == plan.EndHibernation // for which nothing in the cluster matters
	return !w.ending() && w.initialised && !o.Group.New && s.Acts() && !isBeforeAll(s) && !wakes &&
		(!isOfRecovery(s) || s.Verb == plan.EndRecovery)
}

// judgeProven: of the voters that were seen most are proven healthy.
func (w *World) judgeProven(o plan.Observed, s plan.Step) {
	proven, all := seenVoters(o)
	switch {
	case !o.Etcd.Known || !o.Etcd.Agreed:
		w.blame("%s, and the members are not known, or do not agree", s)
	case proven <= all/2:
		w.blame("%s, and %d of %d voters are proven healthy", s, proven, all)
	}
}

// seenVoters counts the voters that are seen: those that are proven healthy, and all.
func seenVoters(o plan.Observed) (proven, all int) {
	for _, e := range o.Etcd.Members {
		if e.Learner {
			continue
		}
		all++
		if e.Health == plan.Healthy && !slices.Contains(e.Alarms, "CORRUPT") {
			proven++
		}
	}
	return proven, all
}

// judgeBeside: while somebody else controls a machine of the control plane, only what goes already
// goes on, and a wait names that machine.
func (w *World) judgeBeside(d plan.Decision) {
	if !w.isClaimed() {
		return
	}
	switch d.Step.Verb {
	case plan.MoveLeader, plan.AddPlaceholder, plan.ReleaseHook, plan.RecordUpdate, plan.DropUpdate:
	case plan.RemoveMember:
		if m := w.memberByID(d.Step.Member); m != nil && !m.host.deleting && !m.placeholder {
			w.blame("%s, beside a machine of somebody else", d.Step)
		}
	case plan.Wait:
		lost := d.Rule == "stop without quorum" || d.Rule == "recover" // which comes first, whatever it waits for
		if d.Reason != "CannotAdopt" && !lost {
			w.blame("%s: a machine of somebody else is what a person must decide about", d)
		}
	default:
		w.blame("%s, beside a machine of somebody else", d.Step)
	}
}

// judgeOrder asks of a decision on the truth whether something was due instead.
func (w *World) judgeOrder(d plan.Decision) {
	if !w.isWorkedOn() {
		return
	}
	w.judgeBeside(d)
	w.judgeLiving(d.Step)
	if isBeforeAll(d.Step) || d.Step.Verb == plan.CancelDowngrade { // until then no host can join
		return
	}
	w.judgeLeisure(d)
	w.judgeUpdateDue(d)
	person := d.Reason == "NoMachineLeft" // which comes first: a person must say what becomes of the data
	if m := w.dueDead(); m != nil && w.updating(nil) == nil && d.Step.Verb == plan.Wait && !person {
		w.blame("%s, and the member %s could be removed, which is dead and has no machine", d, m.id)
	}
	if w.isAllOurs() && !w.kubeconfig && w.isReplaceable() {
		w.blame("%s, and there is no kubeconfig", d)
	}
	w.judgeDue(d)
}

// isWorkedOn: there is a cluster, and nothing keeps the controller from working on its group.
func (w *World) isWorkedOn() bool {
	sleeps := w.power.hibernate || !w.power.noted.Requested.IsZero()
	return !w.deleting && !recovering{w}.hasBegun() && !sleeps && w.initialised && !w.forgot && !w.now.Before(w.pausedUntil) && !w.isInactive()
}

// judgeDue: the quorum is cleared of what can only cost it, before anything else is done. That a decision is dropped changes nothing.
func (w *World) judgeDue(d plan.Decision) {
	if !w.isClear() {
		return
	}
	// An etcd without space is relieved first: it takes no write until then.
	removes := slices.Contains([]plan.Verb{plan.MoveLeader, plan.RemoveMember, plan.AddPlaceholder, plan.ReleaseHook, plan.Compact,
		plan.Defragment, plan.Disarm}, d.Step.Verb)
	if h := w.dueToGo(); h != nil && !removes {
		w.blame("%s, and %s could go, which is being deleted", d, h.name)
	}
	if w.isAllOurs() && !removes && d.Step.Verb != plan.DropChoice && w.updating(nil) == nil {
		w.judgeDueMembers(d)
		w.judgeDueMachines(d)
	}
	w.judgeDoomed(d)
}

// judgeDoomed: a learner that goes with its machine leaves before a voter that has no machine. That one is dead
// already, and the learner may vote at any moment, and then it is not known on which machine it is.
func (w *World) judgeDoomed(d plan.Decision) {
	m, learner := w.memberByID(d.Step.Member), w.dueLearner()
	if learner != nil && d.Step.Verb == plan.RemoveMember && m != nil && !m.learner && !m.host.deleting {
		w.blame("%s, and the learner %s could be removed, which may vote at any moment", d, learner.id)
	}
}

// judgeDueMembers: members without a machine are removed first.
func (w *World) judgeDueMembers(d plan.Decision) {
	if m := w.dueStray(); m != nil {
		w.blame("%s, and the member %s could be removed, whose machine is gone", d, m.id)
	}
	if m := w.dueLearner(); m != nil {
		w.blame("%s, and the learner %s could be removed, which goes with its machine", d, m.id)
	}
	if m := w.dueLate(); m != nil {
		w.blame("%s, and the learner %s could be removed, which does not start", d, m.id)
	}
}

// judgeDueMachines: then machines are replaced and taken away, then others join, and then the rest.
func (w *World) judgeDueMachines(d plan.Decision) {
	gone := w.named(d.Step.Machine)
	repairs := d.Step.Verb == plan.Delete && gone != nil && gone.marked != ""
	// A learner that votes makes the quorum stronger, so that its promotion comes before repairs.
	if h := w.dueForRepair(); h != nil && !repairs && d.Step.Verb != plan.PromoteMember {
		w.blame("%s, and %s could be replaced, which is dead and marked", d, h.name)
	}
	if h := w.dueToClear(); h != nil && d.Step.Verb != plan.Delete {
		w.blame("%s, and %s could be taken away, which never came up and is outdated", d, h.name)
	}
	if d.Step.Verb == plan.Wait {
		w.judgeWait(d)
	}
}

// judgeWait: the rules do not wait while a machine could join, or the cluster could be brought up to date.
func (w *World) judgeWait(d plan.Decision) {
	if w.dueToGrow() && !(comparer{w}).holds() {
		w.blame("%s, and another could join", d)
	}
	if w.dueToTend() {
		w.blame("%s, and nothing keeps permissions, kubeadm's configuration and addons from being brought up to date", d)
	}
}

// judgeLiving: no host that lives and votes goes before one that does not, if that one could go as well.
func (w *World) judgeLiving(s plan.Step) {
	m := w.memberByID(s.Member)
	if s.Verb == plan.RemoveMember && m != nil && w.isLivingVoter(m) && !w.isDoomed(m.host) {
		w.judgeLivingMember(m, s)
	}
	if gone := w.named(s.Machine); s.Verb == plan.Delete && gone != nil {
		w.judgeLivingMachine(gone, s)
	}
}

// isLivingVoter: a member votes, and answers.
func (w *World) isLivingVoter(m *member) bool { return !m.learner && w.answer(m) == plan.Healthy }

// judgeLivingMachine: a marked machine whose voter answers is replaced before none whose voter is dead. One too many has its own order.
func (w *World) judgeLivingMachine(gone *host, s plan.Step) {
	if gone.marked == "" || !w.isOwn(gone) || !w.isLivingVoter(gone.member) || !w.isClear() {
		return
	}
	if h := w.dueForRepair(); h != nil && h != gone {
		w.blame("%s, and %s is dead", s, h.name)
	}
	if h := first(w.hosts, w.isAskedFor); h != nil && !gone.byHand && gone.update == nil && w.count(w.isStaying) <= w.replicas {
		w.blame("%s, which a health check marked, and a person marked %s", s, h.name)
	}
	w.judgeMarkedAPI(gone, s)
}

// judgeMarkedAPI: of hosts that a person marked and whose voters answer, one that serves goes before none whose API server seems broken.
func (w *World) judgeMarkedAPI(gone *host, s plan.Step) {
	for _, h := range w.hosts {
		if h != gone && gone.byHand && w.isPlainlyFit(gone) && w.isAskedFor(h) && h.reports() && w.hasPoorAPI(h) {
			w.blame("%s, and the API server of %s, which is marked as well, is broken", s, h.name)
		}
	}
}

// isAskedFor: a person marked a host whose voter answers, for the first time, and nothing keeps it more than another such host.
func (w *World) isAskedFor(h *host) bool {
	return h.byHand && h.marked != "" && w.isStaying(h) && w.inARow(h) == 0 && h.update == nil && w.isOwn(h) && w.isLivingVoter(h.member) &&
		w.without(h).complete > 0
}

// judgeLivingMember: a voter that answers is removed before none that is dead, and before no machine without one.
func (w *World) judgeLivingMember(m *member, s plan.Step) {
	for _, x := range w.members {
		if x != m && !x.learner && w.isDeadBeside(x, m.host.deleting) {
			w.blame("%s, and the member %s is dead and could go", s, x.id)
		}
	}
	if m.host.deleting && w.isPlaced(m.host) && !w.hasUnplaced() {
		w.judgeMemberless(s)
	}
}

// judgeMemberless: there is no machine without a member that could go.
func (w *World) judgeMemberless(s plan.Step) {
	for _, h := range w.hosts {
		if w.isDrained(h) && h.node.IsZero() && h.member != nil && h.member.removed && w.cannotJoin(h) != "" {
			w.blame("%s, and %s could go, which has no member", s, h.name)
		}
	}
}

// isDrained: a machine is being deleted, and waits for our hook alone.
func (w *World) isDrained(h *host) bool {
	return h.deleting && h.hook && !w.now.Before(h.drained) && w.isOurs(h)
}

// hasUnplaced: it is not known on which machine some member runs.
func (w *World) hasUnplaced() bool {
	return slices.ContainsFunc(w.members, func(m *member) bool {
		return !slices.Contains(w.hosts, m.host) || m.host.member != m || !w.isOurs(m.host) || !w.isPlaced(m.host)
	})
}

// isDeadBeside: a voter is proven dead, or missed for long, and could be removed: because its machine
// is being deleted, or is gone.
func (w *World) isDeadBeside(m *member, deleting bool) bool {
	if healthy, all := w.proven(m); m.running || healthy <= all/2 {
		return false
	}
	h := m.host
	if deleting {
		return w.isDrained(h) && w.isOwn(h) && w.answer(m) == plan.Unhealthy && w.without(h).complete > 0
	}
	return !slices.Contains(w.hosts, h) && w.isMissedLong(m)
}

// isMissedLong: a member was seen as it is for long, and there is no host that could be its machine.
func (w *World) isMissedLong(m *member) bool {
	nobody := slices.ContainsFunc(w.hosts, func(h *host) bool { return h.hidden.IsZero() && !w.isOwn(h) || !h.deleting && h.stage < up })
	return !nobody && !w.hasLearner() && w.isSeenFor(m, 5*time.Minute)
}

// judgeLeisure: what can wait is done when no machine is too many, and none changes.
func (w *World) judgeLeisure(d plan.Decision) {
	staying := w.count(w.isStaying)
	updating := slices.ContainsFunc(w.hosts, func(h *host) bool { return w.isStaying(h) && w.lasts(Update, h.number) })
	switch {
	case writes(d.Step, addons) && staying > w.replicas:
		w.blame("%s, and %d machines are there for %d", d, staying, w.replicas)
	case updating && w.canWait(d.Step, staying):
		w.blame("%s, while somebody changes a machine in place", d)
	}
}

// isStaying: a machine is the group's, and was not deleted.
func (w *World) isStaying(h *host) bool { return !h.deleting && w.isOurs(h) }

// canWait: a step neither repairs nor fills up.
func (w *World) canWait(s plan.Step, staying int) bool {
	gone := w.named(s.Machine)
	switch s.Verb {
	case plan.Write:
		return writes(s, addons)
	case plan.Delete:
		return gone != nil && gone.marked == "" && gone.stage == up && w.now.Sub(gone.node) > 5*time.Minute
	}
	return s.Verb == plan.Create && staying >= w.replicas
}

// isAllOurs: every machine of the control plane is the group's, and can be seen to be.
func (w *World) isAllOurs() bool {
	return !slices.ContainsFunc(w.hosts, func(h *host) bool { return !w.isOurs(h) })
}

// isClear: the API server and etcd answer, everybody knows whose each member is, and most voters
// are proven healthy.
func (w *World) isClear() bool {
	return w.isSeen() && !slices.ContainsFunc(w.hosts, func(h *host) bool { return !h.hidden.IsZero() })
}

// isSeen: the API server and etcd answer, and most voters are proven healthy.
func (w *World) isSeen() bool {
	if w.setup.External || !w.kubeconfig || !w.reachable() || w.lasts(BlindAPI, 0) || w.now.Before(w.refusedUntil) {
		return false
	}
	answering, voters := w.answering()
	proven, all := w.proven(nil)
	return w.hasLeader() && answering > voters/2 && proven > all/2
}

// proven counts the voters but one: those proven healthy, and all.
func (w *World) proven(but *member) (healthy, all int) {
	for _, m := range w.members {
		if m.learner || m == but {
			continue
		}
		all++
		if !m.corrupt && w.answer(m) == plan.Healthy {
			healthy++
		}
	}
	return healthy, all
}

// isUnsound says why etcd may take no new member; empty: it may.
func (w *World) isUnsound() string {
	if w.setup.External {
		return ""
	}
	for _, m := range w.members {
		switch {
		case len(w.alarms(m)) > 0:
			return "the member " + m.id + " raises an alarm"
		case !m.learner && w.answer(m) != plan.Healthy:
			return "the voter " + m.id + " is not proven healthy"
		}
	}
	return ""
}

// isQuiet: no host is on the way to a vote, and none leaves that would be missed.
func (w *World) isQuiet(but *host) bool {
	if w.hasLearner() {
		return false
	}
	for _, h := range w.hosts {
		if h != but && (w.isDoomed(h) || !h.deleting && w.isMoving(h)) {
			return false
		}
	}
	return true
}

// isMoving: a machine is on the way, or does not work and may again.
func (w *World) isMoving(h *host) bool {
	return !w.isPast(h) && (h.stage < up || h.broken() || !w.works(h) || w.isNewAndSilent(h))
}

// isPast: a host came up long ago, so that it is not on the way any more, whatever it does.
func (w *World) isPast(h *host) bool { return h.stage == up && w.now.Sub(h.node) >= 6*time.Minute }

// isNewAndSilent: a host came up a moment ago, and it is not known that its voter is healthy.
func (w *World) isNewAndSilent(h *host) bool {
	return w.now.Sub(h.node) < 6*time.Minute && h.member != nil && w.answer(h.member) != plan.Healthy
}

// isOwn: a host has its own member, which is known to be its, and no other is or may be on it.
func (w *World) isOwn(h *host) bool {
	return w.hasOwn(h) && !slices.ContainsFunc(w.members, func(x *member) bool { return x != h.member && x.host == h })
}

// hasOwn: a host's member is known to be its, whatever others there are.
func (w *World) hasOwn(h *host) bool {
	return h.member != nil && !h.member.removed && w.isPlaced(h)
}

// isIdle: it is known that the API server of a host cannot answer, because etcd beside it is dead.
func (w *World) isIdle(h *host) bool {
	return h.stage == up && h.reports() && w.isOwn(h) && w.answer(h.member) == plan.Unhealthy && !h.member.running
}

// dueToGo is a machine that is being deleted and of which a person could tell that it may go; nil: none.
func (w *World) dueToGo() *host {
	for _, h := range w.hosts {
		if !h.deleting || !w.isOurs(h) || !w.hasOwnVoter(h) {
			continue
		}
		healthy, all := w.proven(h.member)
		if healthy > all/2 && (w.isDoomed(h) || w.mayGo(h)) {
			return h
		}
	}
	return nil
}

// hasOwnVoter: everybody can tell that a member is that of a machine, and it votes.
func (w *World) hasOwnVoter(h *host) bool { return w.isOwn(h) && !h.member.learner }

// mayGo: a machine waits for our hook alone, another serves in its place, and its voter would not be missed.
func (w *World) mayGo(h *host) bool {
	beside := slices.ContainsFunc(w.hosts, func(o *host) bool { return o != h && w.standsIn(o, h) })
	return w.isDrained(h) && beside && (w.answer(h.member) == plan.Unhealthy || w.isQuiet(h) && w.updating(h) == nil)
}

// standsIn: a machine serves in the place of another.
func (w *World) standsIn(o, gone *host) bool {
	return !w.isDoomed(o) && w.isOurs(o) && !o.isUpdating() && (w.works(o) || w.isIdle(gone) && w.serving(o))
}

// dueStray is a member whose machine is gone for long, and that could be removed; nil: none.
func (w *World) dueStray() *member {
	for _, m := range w.members {
		if slices.Contains(w.hosts, m.host) || !w.isSeenFor(m, 25*time.Second) || m.placeholder && w.keepsOut() {
			continue
		}
		if m.learner && w.isSeenFor(m, 5*time.Minute) || !m.learner && w.isNotMissed(m) {
			return m
		}
	}
	return nil
}

// isSeenFor: a member was seen as it is for so long.
func (w *World) isSeenFor(m *member, d time.Duration) bool {
	since := w.seen[m.id].since
	return !since.IsZero() && w.now.Sub(since) >= d
}

// isNotMissed: without a voter most of the others are proven healthy, none is on the way, and each machine has its own member.
func (w *World) isNotMissed(m *member) bool {
	healthy, all := w.proven(m)
	return healthy > all/2 && w.isQuiet(nil) && !slices.ContainsFunc(w.hosts, func(h *host) bool { return !w.isOwn(h) })
}

// dueLearner is a learner that can only be that of a machine which nothing holds any more; nil: none.
func (w *World) dueLearner() *member {
	for _, m := range w.members {
		other := slices.ContainsFunc(w.hosts, func(o *host) bool { return o != m.host && !w.hasOwn(o) })
		if m.learner && w.joinedUnseen(m.host) && !other && w.isSeenFor(m, 5*time.Second) {
			return m
		}
	}
	return nil
}

// joinedUnseen: nothing holds a machine any more of which it is not known what runs on it, and which may have joined just now.
func (w *World) joinedUnseen(h *host) bool {
	return slices.Contains(w.hosts, h) && w.isDoomed(h) && !w.isPlaced(h) && w.cannotJoin(h) == "" && w.now.Sub(h.begun()) < 25*time.Minute
}

// dueLate is a learner that does not start for longer than kubeadm waits for it; nil: none. Where
// another host waits for its turn and would give up, it is longer than etcd takes to start.
func (w *World) dueLate() *member {
	waits := slices.ContainsFunc(w.hosts, func(h *host) bool { return !h.deleting && h.isQueuing() })
	for _, m := range w.members {
		most := kubeadmGivesUp + 5*time.Second
		if waits && w.isOnBroken(m) {
			most = 50 * time.Second
		}
		if m.learner && m.name == "" && w.isSeenFor(m, most) && (!m.placeholder || !w.keepsOut()) {
			return m
		}
	}
	return nil
}

// isQueuing: kubeadm waits for its turn to join.
func (h *host) isQueuing() bool { return h.stage == queuing && !h.broken() }

// isOnBroken: the machine of a member is known, still there, and broken.
func (w *World) isOnBroken(m *member) bool {
	return slices.Contains(w.hosts, m.host) && m.host.broken() && w.isPlaced(m.host)
}

// dueDead is a voter that is proven dead for long, and of which the machine has lost its labels,
// whatever else is under way; nil: none.
func (w *World) dueDead() *member {
	if !w.isSeen() || slices.ContainsFunc(w.hosts, func(h *host) bool { return h.disowned }) {
		return nil
	}
	for _, m := range w.members {
		healthy, all := w.proven(m)
		if w.isDeadHidden(m) && healthy > all/2 && w.isSeenFor(m, 50*time.Second) {
			return m
		}
	}
	return nil
}

// isDeadHidden: a voter is dead, and its machine has lost its labels.
func (w *World) isDeadHidden(m *member) bool {
	return slices.Contains(w.hosts, m.host) && !m.host.hidden.IsZero() && !m.learner && w.answer(m) == plan.Unhealthy
}

// dueForRepair is a marked machine whose voter is dead, and that could be replaced; nil: none.
func (w *World) dueForRepair() *host {
	if !w.isReplaceable() || w.lasts(Invalid, 0) && !w.replaceable || w.setup.InPlace == plan.InPlaceOnly {
		return nil
	}
	return first(w.hosts, func(h *host) bool {
		if !w.awaitsRepair(h) {
			return false
		}
		healthy, all := w.proven(h.member)
		return healthy > all/2 && w.without(h).complete > 0
	})
}

// awaitsRepair: a machine is marked for the first time, and its voter is dead.
func (w *World) awaitsRepair(h *host) bool {
	return h.marked != "" && !h.deleting && w.inARow(h) == 0 && w.hasOwnVoter(h) && w.answer(h.member) == plan.Unhealthy
}

// dueToClear is an outdated machine that never came up, has no member, and would not be missed; nil: none.
func (w *World) dueToClear() *host {
	healthy, all := w.proven(nil)
	if w.lasts(Invalid, 0) || !w.isReplaceable() || healthy <= (all+1)/2 || slices.ContainsFunc(w.hosts, w.isDoomed) {
		return nil
	}
	if slices.ContainsFunc(w.members, func(m *member) bool { return w.isStray(m) || !w.isPlaced(m.host) }) {
		return nil
	}
	return first(w.hosts, func(h *host) bool { return w.isOldAndEmpty(h) && w.without(h).complete > 0 })
}

// isOldAndEmpty: a machine of another spec stays, which has neither a Node nor a member. Where only members tell of machines, it is not
// known of one of which nothing is left whether it had any.
func (w *World) isOldAndEmpty(h *host) bool {
	if w.setup.EtcdOnly && h.vanished && w.setup.Reports && h.failed == "" {
		return false
	}
	return w.isReplaced(h) && !h.deleting && h.node.IsZero() && h.member == nil
}

// isStray: a member is not that of a machine that is there.
func (w *World) isStray(m *member) bool {
	return !slices.Contains(w.hosts, m.host) || m != m.host.member
}

// dueToTend: something in the cluster is behind, and no machine is on the way or goes, whatever is broken.
func (w *World) dueToTend() bool {
	behind := w.forbidden || w.kubeadm != w.spec || w.addons != w.spec
	if !behind || w.isAlarmed() || w.lasts(Invalid, 0) || len(w.hosts) != w.replicas || len(w.members) != w.replicas {
		return false
	}
	return !slices.ContainsFunc(w.hosts, func(h *host) bool { return !w.isSettled(h) })
}

// isSettled: a machine of the spec that is wanted came up long ago, and no change of it goes on.
func (w *World) isSettled(h *host) bool {
	return !h.deleting && h.spec == w.spec && h.stage == up && h.update == nil && w.now.Sub(h.node) >= 6*time.Minute && w.hasOwnVoter(h) &&
		!w.lasts(Update, h.number)
}

// dueToGrow: another machine could join at once.
func (w *World) dueToGrow() bool {
	s := w.setup
	missing := len(w.hosts) < w.replicas || len(w.hosts) == w.replicas && slices.ContainsFunc(w.hosts, w.isHeld)
	if s.Serial || s.MaxParallel > 0 || w.replicas%2 == 0 || !missing || w.newestData() > s.minor(w.spec) {
		return false
	}
	return !w.lasts(Invalid, 0) && w.isReplaceable() && w.isUnsound() == "" && w.isRisen()
}

// isRisen: some machine is whole, all others are or come, and every member is that of a machine.
func (w *World) isRisen() bool {
	whole := 0
	for _, h := range w.hosts {
		switch {
		case h.marked != "" || h.spec != w.spec || w.lasts(Trouble, h.number):
			return false
		case w.isSteady(h):
			whole++
		case w.replacesBroken() && w.isBroken(h) && w.isOwn(h):
		case !w.isComing(h):
			return false
		}
	}
	return whole > 0 && !slices.ContainsFunc(w.members, w.isStray)
}
