package sim

import (
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// recoveryJudge holds what is done for recoveries against the truth.
type recoveryJudge struct{ recovering }

// isOfRecovery reports whether a step is one of a recovery only.
func isOfRecovery(s plan.Step) bool {
	return s.Seed || s.Verb == plan.BeginRecovery || s.Verb == plan.GiveUp || s.Verb == plan.EndRecovery
}

// judgeDecision holds a decision against what is known of recoveries. fresh: what was observed is the truth.
func (r recoveryJudge) judgeDecision(d plan.Decision, fresh bool) {
	if !fresh || !r.judges(d.Step) {
		return
	}
	s, x := d.Step, r.current()
	switch {
	case isOfRecovery(s):
		r.judgeStep(s, x)
	case x == nil, writes(s, kubeconfig):
	case x.begun && s.Verb == plan.Write && r.isSeededUp(x): // judgeWrite asks what is written
	case x.begun && r.isSeededUp(x) && r.dismisses(s): // judgeRemoval asks what is left
	case x.begun && s.Acts() && !r.w.deleting:
		r.w.blame("%s, and recovery r%d has begun", d, x.id)
	default:
		r.judgeDue(d, x)
	}
}

// judges: the group may be recovered, and a step is not one taken while the machines of a hibernated group go: sleeper judges that.
func (r recoveryJudge) judges(s plan.Step) bool {
	return r.w.setup.Recovers && (!sleeper(r.recovering).isAsleep() || s.Verb == plan.BeginRecovery)
}

// isSeededUp: the machine that restored the seed stays, and its API server answers.
func (r recoveryJudge) isSeededUp(x *recovery) bool {
	return r.w.reachable() && slices.ContainsFunc(r.w.hosts, func(h *host) bool { return h.seededBy == x.id && !h.deleting })
}

// serves: an API server answers, which tells that there is a quorum. Machines of etcd alone have none.
func (r recoveryJudge) serves() bool { return !r.w.setup.EtcdOnly && r.w.reachable() }

// dismisses: a step removes a member of a machine that was given up and joined the cluster of the seed, or takes the leadership from it.
func (r recoveryJudge) dismisses(s plan.Step) bool {
	m := r.w.leader
	if s.Verb == plan.RemoveMember {
		m = r.w.memberByID(s.Member)
	}
	return (s.Verb == plan.RemoveMember || s.Verb == plan.MoveLeader) && m != nil && r.w.isDoomed(m.host)
}

// judgeSeen: no recovery begins, and no seed is planted, while an API server is seen to answer: there is a quorum.
func (r recoveryJudge) judgeSeen(o plan.Observed, s plan.Step) {
	if (s.Verb == plan.BeginRecovery || s.Seed) && o.Cluster.Reachable && !r.w.setup.EtcdOnly {
		r.w.blame("%s, and an API server answers", s)
	}
}

// judgeStep: a recovery does what a person approved, and no more.
func (r recoveryJudge) judgeStep(s plan.Step, x *recovery) {
	switch w := r.w; {
	case x == nil || !x.isApproved():
		w.blame("%s, and nobody has approved a recovery as it is", s)
	case s.Verb == plan.BeginRecovery:
		r.judgeBegin(s, x)
	case !x.begun:
		w.blame("%s, and the recovery has not begun", s)
	case s.Verb == plan.GiveUp:
		r.judgeGiveUp(s, x)
	case s.Verb == plan.EndRecovery:
		r.judgeEnd(s, x)
	default:
		r.judgeSeed(s, x)
	}
}

// judgeBegin: nothing is given up while there is a quorum, and nothing that was not named.
func (r recoveryJudge) judgeBegin(s plan.Step, x *recovery) {
	w := r.w
	switch stranger := r.stranger(x); {
	case x.begun:
		w.blame("%s, and it has begun", s)
	case r.provesQuorum() || r.serves() && !w.lasts(BlindAPI, 0):
		w.blame("%s, and etcd has a quorum", s)
	case r.hadQuorum():
		w.blame("%s, and etcd had a quorum a moment ago", s)
	case !w.now.Before(x.approvedAt.Add(plannedApproval)):
		w.blame("%s, and it was approved %s ago", s, w.now.Sub(x.approvedAt))
	case stranger != nil:
		w.blame("%s, and nobody gave %s up", s, stranger.name)
	default:
		r.judgeVoters(s, x)
	}
}

// provesQuorum: most voters say for themselves that they are healthy.
func (r recoveryJudge) provesQuorum() bool {
	proven, all := r.w.proven(nil)
	return proven > all/2 && !r.w.now.Before(r.w.refusedUntil)
}

// hadQuorum: a moment ago most voters were seen to be healthy, and some member still answers.
func (r recoveryJudge) hadQuorum() bool {
	answering, all := r.w.answering()
	then := 0
	for _, m := range r.w.members {
		if s := r.w.seen[m.id]; !m.learner && (s.health == plan.Healthy || r.w.now.Sub(s.since) < 25*time.Second) {
			then++
		}
	}
	return answering > 0 && then > all/2 && !r.w.now.Before(r.w.refusedUntil)
}

// judgeVoters: of the voters that etcd lists each is on a machine that is known, or a person gave it up by its name.
func (r recoveryJudge) judgeVoters(s plan.Step, x *recovery) {
	if m := r.strangeVoter(x); m != nil && slices.Contains(r.w.hosts, m.host) && !m.host.hidden.IsZero() {
		r.w.blame("%s, and nobody gave the voter %s up", s, m.name)
	}
}

// strangeVoter is a voter that etcd lists and that was not given up, by its name or that of the machine on which it can be seen;
// nil: there is none, or no member answers.
func (r recoveryJudge) strangeVoter(x *recovery) *member {
	if answering, _ := r.w.answering(); answering == 0 || r.w.now.Before(r.w.refusedUntil) {
		return nil
	}
	i := slices.IndexFunc(r.w.members, func(m *member) bool {
		known := r.w.isPlaced(m.host) && r.w.isOurs(m.host) && slices.Contains(r.w.hosts, m.host)
		return !m.learner && m.name != "" && !known && !slices.Contains(x.giveUp, m.name)
	})
	if i < 0 {
		return nil
	}
	return r.w.members[i]
}

// stranger is a machine that can be seen and that was not given up; nil: there is none.
func (r recoveryJudge) stranger(x *recovery) *host {
	return first(r.w.hosts, func(h *host) bool {
		return h.hidden.IsZero() && (h.disowned || h.seededBy != x.id && !slices.Contains(x.giveUp, h.name))
	})
}

// judgeGiveUp: only who was named goes, and who should have restored the seed and was deleted.
func (r recoveryJudge) judgeGiveUp(s plan.Step, x *recovery) {
	h := r.w.named(s.Machine)
	switch {
	case h == nil:
		r.w.blame("%s, and there is no such machine", s)
	case h.seededBy == x.id && !h.deleting:
		r.w.blame("%s, which restores the seed", s)
	case h.seededBy != x.id && !slices.Contains(x.giveUp, h.name):
		r.w.blame("%s, which nobody gave up", s)
	}
}

// judgeSeed: the seed is planted where no member of the cluster before can answer, but those that were declared off, and once.
func (r recoveryJudge) judgeSeed(s plan.Step, x *recovery) {
	r.judgeFenced(s, x)
	w := r.w
	switch {
	case !s.Init || s.Hold:
		w.blame("%s would not initialise the cluster", s)
	case r.stranger(x) != nil:
		w.blame("%s, and nobody gave %s up", s, r.stranger(x).name)
	case r.hasHeard():
		w.blame("%s, and an API server answers, or did a moment ago", s)
	case !w.isReplaceable() || w.lasts(Invalid, 0) && !w.replaceable:
		w.blame("%s, and what it needs is missing", s)
	}
}

// hasHeard: the controller has had an answer from the endpoint in the last minute, or has not asked for that long.
func (r recoveryJudge) hasHeard() bool {
	w := r.w
	return !w.setup.EtcdOnly && (w.silentSince.IsZero() || w.now.Sub(w.silentSince) < time.Minute)
}

// judgeFenced: no member of the cluster before can answer, but those that were declared off.
func (r recoveryJudge) judgeFenced(s plan.Step, x *recovery) {
	w := r.w
	for _, h := range w.hosts {
		switch {
		case !h.hidden.IsZero(): // it cannot be known
		case h.seededBy == x.id && !h.deleting:
			w.blame("%s, and %s restores the seed", s, h.name)
		case h.disowned:
			w.blame("%s, and %s is not the group's, and may answer", s, h.name)
		case !h.deleting || h.hook:
			w.blame("%s, and %s stays", s, h.name)
		case !h.vanished && !slices.Contains(x.off, h.name):
			w.blame("%s, and %s may answer", s, h.name)
		}
	}
}

// judgeEnd: the machine that restored the seed serves.
func (r recoveryJudge) judgeEnd(s plan.Step, x *recovery) {
	w := r.w
	h := first(w.hosts, func(h *host) bool { return h.seededBy == x.id && !h.deleting && h.hidden.IsZero() })
	if h == nil || !w.works(h) || !w.isLivingVoter(h.member) || !w.reachable() {
		w.blame("%s, and no machine serves from the seed", s)
	}
}

// judgePlanted is asked when a machine restores a seed: it is what a person approved, and no cluster is there that accepts writes.
func judgePlanted(w *World, h *host) {
	r := recoveryJudge{recovering{w}}
	x := r.current()
	switch {
	case x == nil || x.id != h.seededBy:
		w.blame("%s restores backup %s, and no recovery asks for it", h.name, h.seed.backup)
	case !strings.Contains(x.approved, " {"+h.seed.backup+" "):
		w.blame("%s restores backup %s, and a person approved %s", h.name, h.seed.backup, x.approved)
	case w.recoveries.holds[h.seed.backup] != h.seed.holds:
		w.blame("%s restores backup %s, which lacks what it held", h.name, h.seed.backup)
	case r.serves() && !w.lasts(BlindAPI, 0):
		w.blame("%s restores backup %s beside a cluster that serves", h.name, h.seed.backup)
	}
	if running, all := r.unexcused(w.members); running > all/2 {
		w.blame("%s begins a cluster, and %d of %d voters of another run", h.name, running, all)
	}
}

// unexcused counts voters: those that run and that were not declared off, and all.
func (r recoveryJudge) unexcused(members []*member) (running, all int) {
	for _, m := range members {
		if m.learner || m.removed {
			continue
		}
		all++
		if m.running && !r.isExcused(m.host) {
			running++
		}
	}
	return running, all
}

// judgeTruth: no cluster before the one that is accepts writes.
func (r recoveryJudge) judgeTruth() {
	if firsts := r.w.count(r.initialises); firsts > 1 {
		r.w.blame("%d machines initialise a cluster", firsts)
	}
	running, all := map[int]int{}, map[int]int{}
	for _, m := range r.w.recoveries.retired {
		if m.learner {
			continue
		}
		all[m.cluster]++
		if m.running && !m.excused {
			running[m.cluster]++
		}
	}
	for n := range all {
		if running[n] > all[n]/2 {
			r.w.blame("%d of %d voters of cluster %d accept writes beside cluster %d", running[n], all[n], n, r.w.recoveries.cluster)
		}
	}
}

// initialises: a host that is known and stays is one that initialises the cluster; after a seed was planted only one with a seed is.
func (r recoveryJudge) initialises(h *host) bool {
	seeded := h.seededBy > 0 || !slices.ContainsFunc(r.w.hosts, func(o *host) bool { return o.seededBy > 0 })
	waits := h.seededBy > 0 && h.member == nil // it has not got the snapshot
	return h.first && !h.deleting && !h.vanished && h.hidden.IsZero() && h.old == nil && seeded && !waits
}

// isHeld: people, or machines that were not given up, stand in the way of a recovery.
func (r recoveryJudge) isHeld(x *recovery) bool {
	w := r.w
	return w.deleting || w.now.Before(w.pausedUntil) || !x.isApproved() || r.stranger(x) != nil || !x.begun && r.strangeVoter(x) != nil
}

// judgeDue: what a person approved is begun, and goes on as far as nothing stands in the way.
func (r recoveryJudge) judgeDue(d plan.Decision, x *recovery) {
	w := r.w
	if r.isHeld(x) {
		return
	}
	seeded := first(w.hosts, func(h *host) bool { return h.seededBy == x.id && !h.deleting && h.hidden.IsZero() })
	switch {
	case !x.begun:
		if w.now.Before(x.approvedAt.Add(plannedApproval)) && r.isLost() {
			w.blame("%s, and recovery r%d is approved, and there is no quorum", d, x.id)
		}
	case seeded != nil:
		if seeded.stage == up && w.isPlainlyFit(seeded) && w.isSeen() && len(w.members) == 1 {
			w.blame("%s, and %s serves from the seed", d, seeded.name)
		}
	default:
		r.judgeFencing(d, x)
	}
}

// isLost: everybody can see for long enough that there is no quorum.
func (r recoveryJudge) isLost() bool {
	w := r.w
	lost := !w.hasQuorum() && !w.recoveries.lost.IsZero() && w.now.Sub(w.recoveries.lost) > 2*time.Minute && !w.reachable()
	return lost && w.updating(nil) == nil && !slices.ContainsFunc(w.members, func(m *member) bool {
		return !w.isSeenFor(m, 40*time.Second) && w.isAsked(m)
	})
}

// judgeFencing: who can be given up is, and then the seed is planted.
func (r recoveryJudge) judgeFencing(d plan.Decision, x *recovery) {
	w := r.w
	answers := r.hasHeard() || w.lasts(Invalid, 0) || !w.isReplaceable()
	for _, h := range w.hosts {
		switch {
		case !h.hidden.IsZero():
		case !h.deleting || h.hook:
			w.blame("%s, and %s can be given up", d, h.name)
		case !h.vanished && !slices.Contains(x.off, h.name):
			answers = true
		}
	}
	if !answers {
		w.blame("%s, and no machine of before can answer any more", d)
	}
}

// recoveryDecisions are the decisions about a recovery that only a person may take.
var recoveryDecisions = []personalDecision{
	{[]string{"RecoveryUnapproved"}, func(w *World, _ string) bool {
		x := recovering{w}.current()
		return x != nil && x.begun && !x.isApproved()
	}},
	{[]string{"RecoveryNotGivenUp"}, func(w *World, said string) bool {
		x := recovering{w}.current()
		return x != nil && w.isNamed(said, func(h *host) bool { return h.disowned || h.seededBy != x.id && !slices.Contains(x.giveUp, h.name) })
	}},
	{[]string{"RecoveryFencing"}, func(w *World, said string) bool {
		return w.isNamed(said, (*host).remains) || recoveryJudge{recovering{w}}.serves()
	}},
	{[]string{"RecoveryFailed", "RecoverySeeding"}, func(w *World, said string) bool {
		return w.isNamed(said, func(h *host) bool { return h.seededBy > 0 && (!w.works(h) || !w.hasQuorum()) })
	}},
}
