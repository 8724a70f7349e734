package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// The oracle holds what is done against the truth. It asks neither the rules nor
// package check, and counts what it counts by itself.

// blame notes the first invariant that was broken.
func (w *World) blame(format string, args ...any) {
	if w.wrong == nil {
		w.wrong = fmt.Errorf(format, args...)
		w.tell("VIOLATION: %v", w.wrong)
	}
}

// ending: the group gives its quorum up.
func (w *World) ending() bool { return w.deleting && !w.hasWorkers() }

func (w *World) hasWorkers() bool {
	return w.setup.Workers && (w.workersUntil.IsZero() || w.now.Before(w.workersUntil))
}

// judgeStep holds a step against the truth before it is done. fresh: what was
// observed is the truth; else only what no old look excuses is asked.
func (w *World) judgeStep(s plan.Step, fresh bool) {
	w.judgePause(s, fresh)
	w.judgeWrite(s, fresh)
	w.judgeVersion(s, fresh)
	spacious{w}.judge(s, fresh)
	w.judgeUpdates(s, fresh)
	w.judgeApproval(s, fresh)
	windowed{w}.judge(s, fresh)
	w.judgeLimit(s, fresh)
	gate{w}.judge(s, fresh)
	if fresh {
		w.judgeAround(s)
		w.judgeGoing(w.named(s.Machine), s)
	}
	switch s.Verb {
	case plan.Create:
		w.judgeCreate(s, fresh)
	case plan.StartBootstrap:
		w.judgeStart(s, fresh)
	case plan.RemoveMember:
		if m := w.memberByID(s.Member); m != nil {
			w.judgeRemoval(m, fresh)
		}
	case plan.MoveLeader:
		w.judgeNewLeader(w.memberByID(s.Member), fresh)
	case plan.DropChoice:
		decider{w}.judge(s, fresh)
	case plan.Finish:
		w.judgeFinish(fresh)
	}
}

// judgeNewLeader: no member is made the leader whose data differ from those of the others.
func (w *World) judgeNewLeader(m *member, fresh bool) {
	if m != nil && (m.corrupt || comparer{w}.isWrong(m)) && fresh {
		w.blame("the leader becomes that of %s, whose data differ", m.host.name)
	}
}

// judgeFinish: the group is released when it is deleted, and no machine of it is left that could be seen. The API server is asked before it
// goes.
func (w *World) judgeFinish(fresh bool) {
	if !w.deleting || fresh && slices.ContainsFunc(w.hosts, w.isOurs) {
		w.blame("the group was let go, %d machines are left", len(w.hosts))
	}
}

// judgeGoing judges what lets a machine go, if there is one.
func (w *World) judgeGoing(h *host, s plan.Step) {
	switch {
	case h == nil:
	case w.orphaning:
		w.blame("%s, which is left to nobody", s)
	case w.ending():
	case s.Verb == plan.Delete && !h.deleting:
		w.judgeDelete(h, s)
	case s.Verb == plan.ReleaseHook:
		w.judgeRelease(h)
	}
}

// judgeWrite judges what is written of the cluster.
func (w *World) judgeWrite(s plan.Step, fresh bool) {
	w.judgeWriteInside(s, fresh)
	switch {
	case writes(s, certificates) && w.initialised:
		w.blame("authorities were made again")
	case writes(s, addons) && fresh:
		w.judgeAddons()
	case writes(s, kubeadmConfig) && (!w.initialised || fresh && w.kubeadm == w.spec):
		w.blame("kubeadm's configuration is written, and there was nothing to write")
	}
}

// judgeWriteInside: nothing is written in the cluster while everybody can see that a member raises an alarm.
func (w *World) judgeWriteInside(s plan.Step, fresh bool) {
	inside := writes(s, addons) || writes(s, kubeadmConfig) || writes(s, permissions) || writes(s, etcdPods)
	if inside && fresh && !w.blinded && w.isSeen() && w.isAlarmed() {
		w.blame("%s, and a member raises an alarm: the cluster takes no writes", s)
	}
}

func (w *World) judgePause(s plan.Step, fresh bool) {
	if !s.Acts() || !fresh {
		return
	}
	if w.now.Before(w.pausedUntil) {
		w.blame("%s, while paused", s)
	}
	if w.isInactive() && !w.deleting {
		w.blame("%s, while the group is inactive", s)
	}
}

func (w *World) judgeCreate(s plan.Step, fresh bool) {
	switch {
	case s.Seed: // see recovering.judgeSeed
	case s.Init && (w.initialised || slices.ContainsFunc(w.hosts, initialises)):
		w.blame("%s would make a second cluster", s)
	case !s.Init && !s.Hold && !w.initialised:
		w.blame("%s has nothing to join", s)
	case !w.certificates:
		w.blame("%s has no authority", s)
	case s.Hold:
		w.judgeAhead(s, fresh)
	case fresh:
		w.judgeJoin(s)
	}
	w.judgeName(s, fresh)
	w.judgeTwice(s)
}

// judgeName: what was begun is taken up again by its name, and no number is used again.
func (w *World) judgeName(s plan.Step, fresh bool) {
	if fresh && w.begun != "" && s.Machine != w.begun && w.named(w.begun) == nil {
		w.blame("%s, and %s was begun and is left as it is", s, w.begun)
	}
	if w.named(s.Machine) == nil && s.Number <= w.last && s.Machine != w.begun {
		w.blame("%s has a number that was used", s)
	}
}

// judgeJoin: no more than may be, with a quorum, and with the configuration that is wanted.
func (w *World) judgeJoin(s plan.Step) {
	staying, most := w.room(s)
	switch {
	case !w.setup.External && w.replicas%2 == 0:
		w.blame("%s, and %d machines are wanted, which etcd does not stand better than one fewer", s, w.replicas)
	case staying >= most:
		w.blame("%s would be machine %d of %d", s, staying+1, most)
	case w.lost():
		w.blame("%s without quorum", s)
	case w.adrift() != "":
		w.blame("%s, and a person must decide about the voter %s first", s, w.adrift())
	case w.recoveries.former:
		w.blame("%s would ask members of the etcd before the recovery", s)
	default:
		w.judgeCompany(s)
		comparer{w}.judgeJoin(s)
		w.judgeOverlap(s, staying)
	}
}

// room is how many machines stay beside one that is made, and how many there may be.
func (w *World) room(s plan.Step) (staying, most int) {
	most = w.replicas
	for _, h := range w.hosts {
		switch {
		case h.deleting, w.isMissed(h) && !w.isListed(h):
			continue
		case w.isReplaced(h):
			most = w.replicas + w.surge()
		}
		if h.name != s.Machine {
			staying++
		}
	}
	return staying, most
}

// judgeCompany: no host joins beside one that joins as a voter, is broken or not healthy, nor before what it needs.
func (w *World) judgeCompany(s plan.Step) {
	switch {
	case w.setup.Serial && slices.ContainsFunc(w.hosts, w.isJoining):
		w.blame("%s, while another joins as a voter", s)
	case w.setup.MaxParallel > 0 && w.count(w.countsAsJoining) >= w.setup.MaxParallel:
		w.blame("%s, while as many join as may at once: %d", s, w.setup.MaxParallel)
	case !w.replacesBroken() && slices.ContainsFunc(w.hosts, w.isBroken):
		w.blame("%s, beside a machine that is broken and that nobody replaces", s)
	case w.initialised && w.forbidden:
		w.blame("%s would join without the permissions that its certificates rely on", s)
	case !s.Init && w.isUnsound() != "":
		w.blame("%s, while %s: etcd may take no new member", s, w.isUnsound())
	case w.initialised && w.kubeadm != w.spec:
		w.blame("%s would join with kubeadm's configuration for spec %d, %d is wanted", s, w.kubeadm, w.spec)
	}
}

// isJoining: a host that stays is on its way to a vote, and not late.
func (w *World) isJoining(h *host) bool {
	votes := h.member != nil && !h.member.learner && w.answer(h.member) == plan.Healthy
	return !votes && !h.deleting && w.isOurs(h) && w.mayYetVote(h) && w.now.Sub(h.begun()) < 9*time.Minute
}

// countsAsJoining: a host is on its way, and another takes no place of it.
func (w *World) countsAsJoining(h *host) bool {
	return (w.isJoining(h) || w.joinsOutside(h)) && h.marked == "" && !w.isReplaced(h) && !w.lasts(Trouble, h.number)
}

// joinsOutside: a host that stays is on its way, and not late, and etcd is elsewhere.
func (w *World) joinsOutside(h *host) bool {
	return w.setup.External && w.initialised && w.isStaying(h) && !h.held && h.node.IsZero() && !h.broken() &&
		w.now.Sub(h.begun()) < 9*time.Minute
}

// isBroken: a machine that stays came up long ago and is proven broken, and no other is wanted in its place.
func (w *World) isBroken(h *host) bool {
	return h.stage == up && h.sick && h.alive() && !h.deleting && h.marked == "" && !w.isReplaced(h) && w.isOurs(h) && h.silent.IsZero() &&
		w.now.Sub(h.node) > 6*time.Minute
}

// replacesBroken: a machine that was given up is missing.
func (w *World) replacesBroken() bool { return w.repairing != nil && w.count(w.isStaying) < w.replicas }

// lost: the group has a quorum to lose, and has lost it.
func (w *World) lost() bool { return w.initialised && !w.setup.External && !w.hasQuorum() }

// judgeRemoval: never the quorum, never a leader that could hand over, never who
// serves on a machine that stays, never who is on the way.
func (w *World) judgeRemoval(m *member, fresh bool) {
	if w.ending() {
		if fresh {
			w.blame("the members of a group that goes are left alone")
		}
		return // the quorum is not needed any more
	}
	if fresh || w.mayRemove(m) == nil {
		w.judgeVoterless(m, fresh, "removing the member of "+m.host.name)
	}
	if fresh {
		w.judgeServing(m)
		w.judgeJoiners(m)
	}
	if w.named(m.host.name) == m.host && !m.host.deleting {
		w.judgeStuck(m, fresh)
	}
}

// judgeServing: who is removed neither leads while another could, nor serves the only API server that answers.
func (w *World) judgeServing(m *member) {
	if m.host.deleting && m.host.hook && w.isOurs(m.host) && w.isAlone(m.host) {
		w.blame("the member beside the only API server that answers is removed, on %s", m.host.name)
	}
	if m == w.leader && w.runningBut(m) > 0 {
		w.blame("the leader on %s is removed while another could lead", m.host.name)
	}
}

// judgeVoterless: without a member the voters are a majority that stay, if they were before.
func (w *World) judgeVoterless(m *member, fresh bool, what string) {
	before, all := w.votersOrHung()
	if fresh {
		before, all = w.ballot(nil)
	}
	if before <= all/2 {
		return
	}
	running, all := before, all
	if fresh {
		running, all = w.ballot(m)
	} else if !m.learner {
		all--
		if m.running || m.hung {
			running--
		}
	}
	if running <= all/2 {
		w.blame("%s leaves %d of %d voters", what, running, all)
	}
}

// votersOrHung counts the voters that run or stand still, and all: neither the observer nor etcd can
// know of one that stands still since the last look.
func (w *World) votersOrHung() (running, all int) {
	running, all = w.voters()
	for _, m := range w.members {
		if !m.learner && m.hung {
			running++
		}
	}
	return running, all
}

// ballot counts the voters but one: those that run and stay, and all. A voter that goes with
// a machine whose hook was released counts as gone already, and so does one that may yet join on such a machine.
func (w *World) ballot(but *member) (staying, all int) {
	for _, m := range w.members {
		if m.learner || m == but {
			continue
		}
		all++
		if w.keepsVoting(m) {
			staying++
		}
	}
	// It is not known of one that cannot be seen.
	joining := w.count(func(h *host) bool {
		return w.isDoomed(h) && w.mayYetVote(h) && h.hidden.IsZero() && !w.isKeptOut(h, but)
	})
	return staying, all + joining
}

// keepsVoting: a voter runs, has the data of the others, and does not go.
func (w *World) keepsVoting(m *member) bool {
	return m.running && !m.corrupt && !w.isDoomed(m.host) && !w.isAdrift(m)
}

// isAdrift: a voter runs on a host whose machine has lost its labels, and for all that can be known on none
// that stays: it counts as gone, and a person decides about it.
func (w *World) isAdrift(m *member) bool {
	hidden := !m.learner && slices.Contains(w.hosts, m.host) && !m.host.hidden.IsZero()
	return hidden && !slices.ContainsFunc(w.hosts, func(h *host) bool {
		return h.disowned || h.hidden.IsZero() && !w.isDoomed(h) && h.node.IsZero() && !w.isOwn(h)
	})
}

// adrift names a voter that answers and is adrift; empty: there is none.
func (w *World) adrift() string {
	for _, m := range w.members {
		if w.isAdrift(m) && w.answer(m) == plan.Healthy {
			return m.id
		}
	}
	return ""
}

// isDoomed: nothing holds a host any more, and it goes at any moment.
func (w *World) isDoomed(h *host) bool { return h.deleting && !h.hook }

// mayYetVote: kubeadm on a host may be about to add a member, or its learner to be promoted.
func (w *World) mayYetVote(h *host) bool {
	if w.setup.External || !w.initialised || h.held || h.stage >= raising || h.stuck || h.failed != "" {
		return false
	}
	return w.goesOn(h) && (h.member == nil || !h.member.removed)
}

// goesOn: kubeadm on a host goes on, or will when it is back.
func (w *World) goesOn(h *host) bool {
	return h.alive() || !h.returns.IsZero() && !h.rebooted && w.now.Before(h.patience)
}

// judgeRelease: nothing on a machine whose hook is released may cost the quorum any more.
func (w *World) judgeRelease(h *host) {
	if !h.hook || w.lost() || !w.initialised {
		return
	}
	if w.isAlone(h) {
		w.blame("the hook of %s is released, and no other API server answers", h.name)
	}
	if !w.setup.External {
		w.judgeVoterReleased(h)
	}
}

// isAlone: of several hosts only this one's API server answers.
func (w *World) isAlone(h *host) bool {
	if w.setup.EtcdOnly {
		return false
	}
	goesOn := func(o *host) bool { return !o.isUpdating() || o.isBegunInPart() }
	beside := slices.ContainsFunc(w.hosts, func(o *host) bool { return o != h && goesOn(o) && (w.serving(o) || w.works(o)) })
	return w.serving(h) && len(w.hosts) > 1 && !beside
}

// judgeVoterReleased: no member goes with the host, nor one that may yet be added and would be missed.
func (w *World) judgeVoterReleased(h *host) {
	if m := h.member; m != nil && !m.removed && slices.Contains(w.members, m) {
		w.blame("the hook of %s is released, and its member is there", h.name)
	}
	staying, all := w.ballot(nil)
	if staying > all/2 && w.mayYetVote(h) && !w.isKeptOut(h, nil) && staying <= (all+1)/2 {
		w.blame("the hook of %s is released, which may yet join, and %d of %d voters would be left", h.name, staying, all+1)
	}
}

// judgeJoiners: a host that joins does not lose the member that it needs.
func (w *World) judgeJoiners(m *member) {
	if w.isDoomed(m.host) {
		return // it goes at any moment anyway, and then its vote counts against the others
	}
	if m.corrupt {
		return // it counts as dead
	}
	if m.running && !m.learner && w.hasLearner() {
		w.blame("the voter of %s is removed while there is a learner", m.host.name)
	}
	for _, h := range w.hosts {
		if h.hidden.IsZero() && h.needs(m) {
			w.blame("%s joins and knows nobody but the member of %s", h.name, m.host.name)
		}
	}
}

// needs: kubeadm waits for its turn to join, and knows no other member that answers.
func (h *host) needs(m *member) bool {
	return h.isQueuing() && h.finds(nil) && !h.finds(m)
}

// isKeptOut: a placeholder other than one takes the slot in which a host that has no member would add a learner.
func (w *World) isKeptOut(h *host, but *member) bool {
	return !w.setup.Serial && h.member == nil && slices.ContainsFunc(w.members, func(m *member) bool { return m.placeholder && m != but })
}

// keepsOut: for all that can be known a machine that goes could join without the placeholders.
func (w *World) keepsOut() bool {
	return slices.ContainsFunc(w.hosts, func(h *host) bool {
		most := max(w.setup.MemberAdd, 30*time.Minute)
		return h.deleting && w.cannotJoin(h) == "" && (w.now.Sub(h.begun()) <= most || w.now.Sub(h.node) <= most)
	})
}

func (w *World) hasLearner() bool {
	for _, m := range w.members {
		if m.learner && !m.placeholder {
			return true
		}
	}
	return false
}

// judgeLoss is asked when a host goes whose hook was released: what it takes along
// must not have been needed. Voters that stopped since then, or that a person removed or added, are no
// fault of ours.
func (w *World) judgeLoss(h *host) {
	m := h.member
	if !h.hasVoter() || !m.running || !w.hasQuorum() {
		return
	}
	if w.ending() || h.forced || w.setup.Serial || !w.initialised {
		return
	}
	if !h.hidden.IsZero() {
		return // it is not known that one joined that cannot be seen
	}
	if left, all := w.leftOf(m, h.released); left <= all/2 {
		w.blame("%s went with a voter that the quorum needed: %d of %d are left", h.name, left, all)
	}
}

// leftOf counts the voters but one: those that run or ran until a moment, and all, that one among them.
func (w *World) leftOf(but *member, until time.Time) (left, all int) {
	for _, x := range w.members {
		if x.learner || x.host.name == nobody && x.since.After(until) {
			continue
		}
		all++
		if x != but && x.ranAfter(until) {
			left++
		}
	}
	for _, x := range w.struck {
		if !x.learner && x.halted.After(until) {
			left, all = left+1, all+1
		}
	}
	return left, all
}

// ranAfter: a member runs, or ran after a moment.
func (m *member) ranAfter(at time.Time) bool { return m.running || m.halted.After(at) }

// judgeTruth is asked all the time.
func (w *World) judgeTruth() {
	recoveryJudge{recovering{w}}.judgeTruth()
	if w.setup.Sturdy && w.rested && !w.keepsQuorum() {
		w.blame("the quorum was lost with a single failure")
	}
	if w.calm && w.moves > 1 {
		w.blame("the leader was moved %d times in a rollout in which nothing failed", w.moves)
	}
	if w.setup.Recovers {
		return // see recovering.judgeTruth
	}
	if firsts := w.count(func(h *host) bool { return h.first && !h.deleting && !h.vanished }); firsts > 1 {
		w.blame("%d machines initialise a cluster", firsts)
	}
}

// AsWanted says what of the world is not as the user wants it; nil: nothing.
func (w *World) AsWanted() error {
	if w.deleting {
		return w.goneAsWanted()
	}
	if err := errors.Join(sleeper{w}.asWanted(), w.machinesAsWanted()); err != nil {
		return err
	}
	if !w.initialised {
		return w.membersAsWanted()
	}
	if w.forbidden || !w.kubeconfig {
		return fmt.Errorf("permissions are missing: %t, the kubeconfig is there: %t", w.forbidden, w.kubeconfig)
	}
	if w.kubeadm != w.spec || w.addons != w.spec {
		return fmt.Errorf("kubeadm's configuration is for spec %d, the addons are of %d, %d is wanted", w.kubeadm, w.addons, w.spec)
	}
	return w.membersAsWanted()
}

// goneAsWanted says what is left of a group that is being deleted.
func (w *World) goneAsWanted() error {
	if !w.finished || slices.ContainsFunc(w.hosts, w.isOurs) {
		return fmt.Errorf("the group is not gone: %d machines", len(w.hosts))
	}
	return nil
}

// machinesAsWanted says what of the machines is not as the user wants it.
func (w *World) machinesAsWanted() error {
	staying := 0
	for _, h := range w.hosts {
		if h.remains() {
			continue
		}
		staying++
		if !w.isWell(h) {
			return fmt.Errorf("%s is not as it should be", h.name)
		}
		if h.update != nil {
			return fmt.Errorf("the update of %s is not recorded", h.name)
		}
		if h.spec != w.spec {
			return fmt.Errorf("%s is of spec %d, %d is wanted", h.name, h.spec, w.spec)
		}
	}
	if staying != w.replicas {
		return fmt.Errorf("%d machines of %d", staying, w.replicas)
	}
	return nil
}

// isWell: a host came up, nothing is wrong with it, and it is to stay.
func (w *World) isWell(h *host) bool {
	return h.stage == up && !h.deleting && h.hook && !h.ails() && w.isOurs(h)
}

// isAsWanted: a member votes, and is that of a machine.
func (w *World) isAsWanted(m *member) bool {
	return !m.learner && m.running && !m.corrupt && w.named(m.host.name) == m.host
}

func (w *World) membersAsWanted() error {
	switch {
	case w.setup.Operated && !w.operatedAsWanted():
		return fmt.Errorf("the operator has %d members for %d machines", len(w.seats), len(w.hosts))
	case w.setup.External:
		return nil
	}
	for _, m := range w.members {
		if !w.isAsWanted(m) {
			return fmt.Errorf("the member of %s is not as it should be", m.host.name)
		}
	}
	if w.lowering > 0 {
		return fmt.Errorf("a downgrade to etcd 3.%d is enabled, so that nobody can join", w.lowering)
	}
	if len(w.members) != w.replicas {
		return fmt.Errorf("%d members of %d", len(w.members), w.replicas)
	}
	return nil
}
