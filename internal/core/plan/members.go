package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/quorum"
)

func stopWithoutQuorum(s *state) opinion {
	switch {
	case !s.Etcd.Ours():
		return pass("etcd is not on these machines")
	case s.isNew():
		return pass("nothing is initialised, and there is no quorum to lose")
	case s.hasQuorum():
		return pass("%s", s.strength())
	case s.updating() != nil && s.mayHaveQuorum():
		return wait("UpdatingInPlace", "%s; %s is updated in place: %s", s.strength(), s.updating().Name, s.updating().Update.Message)
	case s.mayHaveQuorum():
		return wait("QuorumUnproven", "%s; who began to vote or fell silent a moment ago is given %s to answer", s.strength(), quorumProofTimeout)
	}
	return wait("QuorumLost", "%s; a person must decide%s", s.strength(), lost{s}.recovery())
}

// hasQuorum reports whether a majority of the voters is healthy, or no voters are known.
func (s *state) hasQuorum() bool { return len(s.voters) == 0 || quorum.Has(s.voters) }

// mayHaveQuorum reports whether those would be a majority who are healthy, have been
// as they are for a moment only, or are updated in place.
func (s *state) mayHaveQuorum() bool {
	var voters []quorum.Voter
	updated := ""
	if m := s.updating(); m != nil {
		updated = m.Name
	}
	for _, m := range s.Etcd.Members {
		if !m.Learner {
			voters = append(voters, quorum.Voter{ID: m.ID, Healthy: m.Health == Healthy || s.Now.Before(m.Since.Add(quorumProofTimeout)) ||
				updated == m.Machine && updated != ""})
		}
	}
	return quorum.Has(voters)
}

// strength writes how well the quorum stands.
func (s *state) strength() string {
	if len(s.voters) == 0 {
		return "no voters are known"
	}
	if !quorum.Has(s.voters) {
		return fmt.Sprintf("%d of %s healthy, %d needed: %s", quorum.Healthy(s.voters), count(len(s.voters), "voter"),
			quorum.Majority(len(s.voters)), s.ailing())
	}
	return fmt.Sprintf("%d of %s healthy, %d more may fail", quorum.Healthy(s.voters), count(len(s.voters), "voter"), quorum.Spare(s.voters))
}

// ailing names the voters that are not proven healthy.
func (s *state) ailing() string {
	var texts []string
	for i := range s.Etcd.Members {
		if m := &s.Etcd.Members[i]; !m.Learner && m.Health != Healthy {
			texts = append(texts, m.label()+" is "+describe(m.Health, m.Why))
		}
	}
	return strings.Join(texts, ", ")
}

// label names a member for people.
func (m *Member) label() string {
	switch {
	case m.Machine != "":
		return m.ID + " on " + m.Machine
	case m.Name != "":
		return m.ID + " (" + m.Name + ")"
	}
	return m.ID
}

// stopWithoutFacts waits until the facts can be acted upon.
func stopWithoutFacts(s *state) opinion {
	if s.isNew() {
		return pass("nothing is initialised, and there is nothing to know")
	}
	reason, why := s.doubt()
	if v := s.keepInside(); v.decided && reason == "EtcdUnknown" {
		return v
	}
	if reason != "" {
		return wait(reason, "%s", why)
	}
	return pass("the API server and etcd answer and agree")
}

// doubt says why the facts cannot be acted upon: a reason and a text, both empty if they can.
func (s *state) doubt() (string, string) {
	if !s.Group.Initialized {
		return "ClusterUnseen", s.unseen()
	}
	if len(s.machines) == 0 {
		data := "its data is gone unless there is a copy"
		if !s.Etcd.Ours() {
			data = "its data is in the external etcd; to Cluster API it stays initialised, so that a new machine would join; there is no machine " +
				"left to join; docs/operating.md says how a first one is made again"
		}
		text := "the cluster was initialised and no machine of " + s.Group.Name + " is left: " + data + "; a person must decide"
		return "NoMachineLeft", text + lost{s}.recovery()
	}
	if !s.Cluster.Reachable {
		return "Unreachable", "the API server does not answer: " + s.Cluster.Unreachable + lost{s}.ifLost()
	}
	if !s.Etcd.Ours() {
		return "", ""
	}
	switch {
	case !s.Etcd.Known:
		return "EtcdUnknown", "etcd's members are not known: " + s.Etcd.Why + lost{s}.ifLost()
	case !s.Etcd.Agreed:
		return "EtcdDisagrees", "etcd's members disagree: " + s.Etcd.Why
	case s.twice != "":
		return "EtcdDisagrees", s.twice + ": a person must look"
	}
	leaders := 0
	for _, m := range s.Etcd.Members {
		if m.Leader {
			leaders++
		}
	}
	if leaders != 1 {
		return "NoLeader", fmt.Sprintf("%d of %s say that they lead", leaders, count(len(s.Etcd.Members), "etcd member"))
	}
	return "", ""
}

// finishRemovals lets machines that are being deleted go in good order.
func finishRemovals(s *state) opinion {
	due := s.due()
	if len(due) == 0 && len(s.keptOut()) == 0 {
		return pass("no machine waits for its hook")
	}
	if s.isNew() {
		return do(Step{Verb: ReleaseHook, Machine: due[0].Name}, "MachineDeleting", "%s is being deleted, and no cluster was made yet",
			due[0].Name)
	}
	if reason, why := s.doubt(); why != "" && (s.Etcd.Ours() || reason == "ClusterUnseen") {
		return pass("%s: not before the facts are known", names(append(due, s.keptOut()...)))
	}
	var passedOver []string
	var late *machine
	for _, m := range due {
		why := cmp.Or(s.cannotGo(m), s.servesAlone(m), s.cannotRelease(m))
		switch {
		case why != "":
			passedOver = append(passedOver, m.Name+" "+why)
		case !s.Etcd.Ours():
			return do(Step{Verb: ReleaseHook, Machine: m.Name}, "MachineDeleting", "%s is being deleted, and etcd is not on it", m.Name)
		case m.member == nil && s.endangers(m):
			late = cmp.Or(late, m) // what is dead leaves first
		case m.member == nil:
			return do(Step{Verb: ReleaseHook, Machine: m.Name}, "MachineDeleting", "%s is being deleted, and no etcd member is on it", m.Name)
		default:
			return s.takeOut(m.member, "MachineDeleting", m.Name+" is being deleted")
		}
	}
	return s.keepOut(cmp.Or(late, s.loose()), passedOver)
}

// due returns the machines that wait for our hook, and those that nothing holds any more and
// that have a member nevertheless. Those without a member come first, then those that do not
// vote, the dead, the living.
func (s *state) due() []*machine {
	var due []*machine
	for _, m := range s.machines {
		if m.HookDue || m.isReleased() && m.member != nil {
			due = append(due, m)
		}
	}
	slices.SortStableFunc(due, func(a, b *machine) int { return cmp.Compare(a.member.loss(), b.member.loss()) })
	return due
}

// servesAlone says that a machine's API server is the only one known to be healthy, while others
// could serve in its place. Empty: it is not, or there is no other machine, nor one of others.
func (s *state) servesAlone(m *machine) string {
	if s.Policy.EtcdOnly || m.Gone || m.isReleased() || !m.isUp() || s.cannotServe(m) || len(s.machines)+len(s.Uncontrolled) == 1 {
		return ""
	}
	for _, o := range s.machines {
		if o != m && !o.isReleased() && !s.isCarriedOut(o) && o.apiServer() == Healthy && (!s.Etcd.Known || !s.lacksEtcd(o)) {
			return ""
		}
	}
	if m.apiServer() == Unhealthy {
		return "may run the only API server that answers: its probe fails, and no other is known to be healthy"
	}
	return "runs the only API server that is known to be healthy"
}

// cannotServe: a machine's API server is not healthy, and etcd beside it is gone or dead. A probe
// that fails is no proof by itself: an API server that comes up answers before it is ready.
func (s *state) cannotServe(m *machine) bool {
	return m.apiServer() == Unhealthy && s.lacksEtcd(m)
}

// lacksEtcd: etcd beside a machine's API server is gone or dead. A Node that is ready does not tell.
func (s *state) lacksEtcd(m *machine) bool {
	return s.Etcd.Ours() &&
		!slices.ContainsFunc(s.mayHaveOn(m), func(e *Member) bool { return e.Health != Unhealthy })
}

// apiServer is the health of the machine's kube-apiserver.
func (m *machine) apiServer() Health {
	for _, c := range m.Components {
		if c.Name == "kube-apiserver" {
			return c.Health
		}
	}
	return Unknown
}

// loss is what the quorum loses with a member.
type loss int

// The values of loss, the least first.
const (
	losesNothing loss = iota
	losesLearner
	losesSilentVoter
	losesVoter
)

// loss is what the quorum loses with a member; nil: nothing.
func (m *Member) loss() loss {
	switch {
	case m == nil:
		return losesNothing
	case m.Learner:
		return losesLearner
	case m.Health != Healthy:
		return losesSilentVoter
	}
	return losesVoter
}

// cannotGo says why the quorum cannot spare a machine; empty if it can.
func (s *state) cannotGo(m *machine) string {
	switch {
	case !s.Etcd.Ours():
		return ""
	case m.member != nil:
		return s.cannotSpare(m.member)
	}
	if o := s.memberOrOrphan(m); o != nil {
		return "may hold the voter " + o.label() + ", for which no machine is known"
	}
	if !s.Etcd.Known {
		return "may hold a voter: etcd's members are not known"
	}
	if e := s.heldLearner(m); e != nil {
		return "may hold the learner " + e.label() + ", for which no machine is known"
	}
	if s.costsQuorum(m) {
		return s.shutOut(m, "may yet join, and going then its voter would cost the quorum")
	}
	return ""
}

// lastingWith is how the voters last when a machine adds one and goes with it.
func (s *state) lastingWith(m *machine) []quorum.Voter {
	return append(slices.Clone(s.lasting), quorum.Voter{ID: m.Name})
}

// cannotRelease says why the hook of a machine that can go holds it for now; empty: nothing does. kubeadm on it may yet add a voter:
// held, the machine's member is removed before it goes; else no other voter could fail any more, where one could before.
func (s *state) cannotRelease(m *machine) string {
	if !s.costsSpare(m) {
		return ""
	}
	return s.shutOut(m, "may yet join, and without its voter none could fail any more")
}

// heldLearner is a learner that may run on a machine for all that is known; nil: there is none.
func (s *state) heldLearner(m *machine) *Member {
	for _, e := range s.learners {
		if !s.has(e.Machine) && s.mayHold(m, e) && (m.canJoin() || e.Name != "") {
			return e
		}
	}
	return nil
}

// mayHold reports whether a member may run on a machine, for all that is known. It is
// named after its Node, as soon as it has started, and where there are no Nodes after its machine.
func (s *state) mayHold(m *machine, e *Member) bool {
	switch {
	case m.isHeld(), m.Gone:
		return false
	case s.Policy.EtcdOnly:
		return e.Name == "" || e.Name == m.Name
	}
	return !m.isUp() || e.Name == "" || e.Name == m.Host
}

// cannotSpare says why a member cannot leave the quorum now; empty if it can.
//
// The quorum only gains when a dead voter leaves, or one that goes at any moment anyway.
// For any other, those count as dead that go at any moment; and it waits for all
// members that join. The learner may be promoted at any moment and die in the next.
// Those that started early know only the members of that time, and cannot reach others when these are gone.
func (s *state) cannotSpare(m *Member) string {
	if m.Learner {
		return ""
	}
	voters := s.lasting
	lost := s.isLost(m)
	if lost {
		voters = s.voters
	}
	rest := quorum.Without(voters, m.ID)
	if len(rest) == 0 {
		return "holds the last voter"
	}
	if !quorum.Has(s.voters) || !quorum.Has(rest) {
		return fmt.Sprintf("holds a voter that the quorum needs: %d of %d would be healthy without it%s", quorum.Healthy(rest), len(rest),
			s.missing(m))
	}
	if lost {
		return ""
	}
	if o := s.carriedOut(); o != nil && o.Name != m.Machine {
		return "holds a voter that may live, which stays while " + o.Name + " is updated in place"
	}
	if on := s.those(func(o *machine) bool { return o.standing == joining && !o.isHeld() && o.Name != m.Machine }); len(on) > 0 {
		return "holds a voter that may live, which stays while machines join: " + names(on)
	}
	if len(s.learners) > 0 {
		return "holds a voter that may live, which stays while there is a learner: " + s.learners[0].label()
	}
	return ""
}

// missing names the others that the quorum would need instead of a member.
func (s *state) missing(but *Member) string {
	var texts []string
	for i := range s.Etcd.Members {
		m := &s.Etcd.Members[i]
		switch {
		case m == but || m.Learner:
		case !m.isSound():
			texts = append(texts, m.label()+" is "+describe(m.Health, cmp.Or(strings.Join(m.Alarms, ", "), m.Why)))
		case !s.has(m.Machine):
			texts = append(texts, "for "+m.label()+" no machine is known")
		}
	}
	if len(texts) == 0 {
		return ""
	}
	return " (" + strings.Join(texts, ", ") + ")"
}

// takeOut moves the leadership away from a member, and then removes it.
func (s *state) takeOut(m *Member, reason, why string) opinion {
	if v := s.handOver(m, reason, why); v.decided {
		return v
	}
	return do(Step{Verb: RemoveMember, Member: m.ID, Machine: m.Machine}, reason, "%s", why)
}

// handOver moves the leadership from a member that leads to one that stays.
func (s *state) handOver(m *Member, reason, why string) opinion {
	if !m.Leader {
		return pass("%s does not lead", m.label())
	}
	to := s.successor(m)
	if to == nil {
		return pass("no other member can lead instead of %s", m.label())
	}
	return do(Step{Verb: MoveLeader, Member: to.ID, Machine: to.Machine}, reason, "%s, and %s leads", why, m.label())
}

// successor is the healthy voter to lead instead of m. A voter on a machine that is updated in place may stop at any moment: it leads only
// where no other voter can. That is so only instead of a leader that is lost, because any other stays while a machine is updated. etcd
// would elect the same voter when the leader has gone.
func (s *state) successor(m *Member) *Member {
	if to := s.newestVoter(m, false); to != nil {
		return to
	}
	return s.newestVoter(m, true)
}

// newestVoter is a healthy voter other than one: on the newest complete machine, because the oldest go first; else on any. updated: also on
// a machine that is updated in place.
func (s *state) newestVoter(but *Member, updated bool) *Member {
	var best *Member
	seat := -1
	for i := range s.Etcd.Members {
		o := &s.Etcd.Members[i]
		if on := s.on(o.Machine); o.ID == but.ID || o.Learner || o.Differs || !o.isSound() || !updated && on != nil && s.isCarriedOut(on) {
			continue
		}
		on := slices.IndexFunc(s.with(complete), func(c *machine) bool { return c.Name == o.Machine })
		if on >= seat {
			best, seat = o, on
		}
	}
	return best
}

// isLost reports whether the quorum only gains when a voter leaves: it is dead, or nothing holds its machine any more.
func (s *state) isLost(m *Member) bool {
	on := s.on(m.Machine)
	return m.Health == Unhealthy || on != nil && on.isReleased()
}

// withoutHomeless returns voters with those as dead that can be on no machine that stays: their
// host may be one that is not kept any more, and go at any moment.
func (s *state) withoutHomeless(voters []quorum.Voter) []quorum.Voter {
	return silent(voters, s.homeless())
}

// silent are the voters if these members did not answer.
func silent(voters []quorum.Voter, members []*Member) []quorum.Voter {
	found := slices.Clone(voters)
	for _, e := range members {
		found = append(quorum.Without(found, e.ID), quorum.Voter{ID: e.ID})
	}
	return found
}

// homeless are the voters that can be on no machine that stays.
func (s *state) homeless() []*Member {
	if len(s.Uncontrolled) > 0 {
		return nil // they may be on those
	}
	return slices.DeleteFunc(s.orphans(), func(e *Member) bool {
		return slices.ContainsFunc(s.machines, func(m *machine) bool { return !m.isReleased() && m.member == nil && s.mayHold(m, e) })
	})
}

// placed waits while a voter that answers can be on no machine that stays: a person decides about
// it, and before that nothing goes or joins that could as well wait. Nor does it while one cannot be asked that may answer.
func (s *state) placed() opinion {
	for _, e := range s.homeless() {
		why := s.cannotSpare(e)
		switch {
		case choosing{s}.isChosen(e):
			return wait("MembersUnmatched", "no machine is known for etcd member %s, and a person decided that it goes: it %s", e.label(), why)
		case e.answersAndVotes():
			return wait("MembersUnmatched", "no machine is known for etcd member %s, which answers and votes, and is left alone: "+
				"a person gives its Machine back its labels, or decides that it goes (quorate decide)", e.label())
		case e.Since.IsZero() && s.Now.Before(e.answers()):
			return wait("MembersUnmatched", "no machine is known for etcd member %s, which cannot be asked, and may answer", e.label())
		case s.Now.Before(e.answers()):
			return wait("MembersUnmatched", "no machine is known for etcd member %s, which cannot be asked, and may answer: waiting until %s "+
				"after it last did", e.label(), s.awaited(e).Sub(e.Since))
		}
	}
	return pass("every voter that answers has its machine")
}

// awaited is until when the rules wait for a voter of no known machine: until it is removed, if the others can spare it, or counts as one
// that does not answer. It is removed before it counts as that: a voter that may live is no stray while a machine may have it, and any
// other is one in less time.
func (s *state) awaited(e *Member) time.Time {
	if at := s.stuckAt(e); !at.IsZero() && s.cannotSpare(e) == "" {
		return at
	}
	return e.answers()
}

// answersAndVotes: it serves the quorum, whatever is known of its machine.
func (m *Member) answersAndVotes() bool { return m.Health == Healthy && !m.Learner }

// isOfReleased reports whether a learner for which no machine is known can only be that of one
// that nothing holds any more: promoted it would be a voter that goes at any moment.
func (s *state) isOfReleased(e *Member) bool {
	found := false
	for _, m := range s.machines {
		if m.member != nil || !s.mayHold(m, e) || !s.hasTimeToAdd(m) {
			continue
		}
		if !m.isReleased() {
			return false
		}
		found = true
	}
	return found
}

// maybeAlive: it has started, and is not known to be dead.
func (m *Member) maybeAlive() bool { return m.Name != "" && m.Health != Unhealthy }

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// on returns the machine of that name; nil if there is none.
func (s *state) on(name string) *machine {
	for _, m := range s.machines {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// mayOwn returns the machines that may own a member which is not yet known to be
// theirs, or wait for their turn to have one.
func (s *state) mayOwn() []*machine {
	var found []*machine
	for _, m := range s.with(joining, late, failed) {
		if m.member == nil && !m.isHeld() && !m.Gone {
			found = append(found, m)
		}
	}
	return found
}

// names lists machines.
func names(machines []*machine) string {
	var list []string
	for _, m := range machines {
		list = append(list, m.Name)
	}
	return strings.Join(list, ", ")
}
