package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/quorum"
)

// How long something may take before it counts as stuck.
const (
	// memberStartTimeout is what a member gets without a reason to wait for it: its
	// machine is gone or failed, or registered its Node that long ago.
	memberStartTimeout = 20 * time.Second
	// learnerTurnTimeout is what a learner gets while others wait for their turn. Images are
	// pulled before the member is added, so that etcd starts within seconds, on a busy
	// host within half a minute. A member that is removed too early never joins any
	// more, and members that wait too long give up, after kubeadmEtcdTimeout.
	learnerTurnTimeout = 45 * time.Second
	// kubeadmEtcdTimeout is kubeadm's own timeout for calls to etcd where the spec sets none, after
	// which kubeadm neither starts nor promotes the learner any more.
	kubeadmEtcdTimeout = 2 * time.Minute
	// promotionTimeout is what a healthy learner gets to be promoted: a large store
	// takes its time to arrive.
	promotionTimeout = 5 * time.Minute
	// joinTimeout is how long a machine may take from its creation to its Node.
	joinTimeout = 10 * time.Minute
	// memberAddTimeout is how long after its creation, or its Node's registration, kubeadm on a
	// machine may still add a member to etcd, where the spec sets nothing. Hosts take up to half an hour to boot.
	memberAddTimeout = 30 * time.Minute
	// quorumProofTimeout is how long voters may be silent before the quorum counts as lost:
	// a learner that was just promoted, and a member that starts again, answer within seconds.
	quorumProofTimeout = 30 * time.Second
	// silentVoterTimeout is how long a voter may be silent, neither proven healthy nor dead, before its
	// marked machine is replaced as one that is dead.
	silentVoterTimeout = 5 * time.Minute
	// componentsTimeout is how long a machine may take from its Node to all components.
	componentsTimeout = 5 * time.Minute
)

// Standing is how far a machine has come.
type Standing string

const (
	leaving   Standing = "Leaving"   // it is being deleted
	failed    Standing = "Failed"    // its bootstrap ended with an error
	complete  Standing = "Complete"  // its Node, its components and its voter are there and healthy
	joining   Standing = "Joining"   // it is on its way, and not late
	late      Standing = "Late"      // it has no Node and should have one by now
	unhealthy Standing = "Unhealthy" // something that it should run is proven to be broken
	unknown   Standing = "Unknown"   // something that it should run is neither proven healthy nor broken
)

// machine is an observed machine with what follows from the rest.
type machine struct {
	Machine
	standing Standing
	health   Health    // that of its components and member together
	member   *Member   // nil: none is known to run on it
	why      string    // what is missing, unless it is complete
	until    time.Time // when time alone may change its standing; zero or past: never
}

// state is what the rules look at: what was observed, in a fixed order, with
// what is counted more than once counted in one place.
type state struct {
	Observed
	// whole is all that was observed, with the machines for which the rules wait no longer, as a person decided.
	whole    Observed
	machines []*machine
	// voters are those of the list, as they answer now. lasting are the same as they will
	// be when those are gone that nothing holds: they leave, or have no machine.
	voters, lasting []quorum.Voter
	// learners are those that may vote one day, placeholders those that only take a learner slot.
	learners, placeholders []*Member
	// chores are those that can be done, and blocked those that only a person can do.
	chores, blocked []Chore
	// backed: what the rules would do is asked as if there was a backup.
	backed bool
	// twice says of which two members one machine seems to be the host; empty: of none.
	twice string
}

// newState copies and sorts what was observed, so that its order decides nothing.
func newState(o Observed) *state {
	s := &state{Observed: o}
	s.Machines = slices.Clone(o.Machines)
	slices.SortFunc(s.Machines, func(a, b Machine) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	choosing{s}.forget()
	s.Etcd.Members = slices.Clone(o.Etcd.Members)
	slices.SortFunc(s.Etcd.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	s.Want.Domains = sorted(o.Want.Domains)
	s.Uncontrolled = slices.Clone(o.Uncontrolled)
	slices.SortFunc(s.Uncontrolled, func(a, b UncontrolledMachine) int { return cmp.Compare(a.Name, b.Name) })
	s.Workers = sorted(o.Workers)
	for i := range s.Etcd.Members {
		m := &s.Etcd.Members[i]
		switch {
		case m.Placeholder:
			s.placeholders = append(s.placeholders, m)
		case m.Learner:
			s.learners = append(s.learners, m)
		default:
			s.voters = append(s.voters, quorum.Voter{ID: m.ID, Healthy: m.isSound()})
		}
	}
	for _, c := range o.Cluster.Chores {
		if c.Blocked {
			s.blocked = append(s.blocked, c)
		} else {
			s.chores = append(s.chores, c)
		}
	}
	s.displace()
	s.machines = make([]*machine, len(s.Machines))
	for i, m := range s.Machines {
		m.Components = slices.Clone(m.Components)
		slices.SortFunc(m.Components, func(a, b Component) int { return cmp.Compare(a.Name, b.Name) })
		s.machines[i] = s.judge(m)
	}
	s.lasting = s.withoutHomeless(s.withoutReleased(s.voters))
	return s
}

// displace takes members from their machine that do not answer where another runs that does:
// that one is the machine's own. Two that answer contradict each other.
func (s *state) displace() {
	own := map[string]*Member{}
	for i := range s.Etcd.Members {
		m := &s.Etcd.Members[i]
		if m.Machine == "" || m.Health != Healthy {
			continue
		}
		if other := own[m.Machine]; other != nil {
			s.twice = "members " + other.ID + " and " + m.ID + " both answer on " + m.Machine
		}
		own[m.Machine] = m
	}
	for i := range s.Etcd.Members {
		if m := &s.Etcd.Members[i]; own[m.Machine] != nil && m.Health != Healthy {
			m.Machine = ""
		}
	}
}

// isSound: it answers, and holds the data that the others hold.
func (m *Member) isSound() bool { return m.Health == Healthy && !slices.Contains(m.Alarms, corrupt) }

// corrupt is etcd's alarm of a member whose data differ from those of the others.
const corrupt = "CORRUPT"

// withoutReleased returns voters as they will be when all released machines are gone: their
// voters are dead, and where one may still join there is one dead voter more.
func (s *state) withoutReleased(voters []quorum.Voter) []quorum.Voter {
	lasting := slices.Clone(voters)
	for _, m := range s.machines {
		switch {
		case !m.isReleased():
		case m.member == nil && !s.mayAdd(m):
		case m.member == nil:
			lasting = append(lasting, quorum.Voter{ID: m.Name})
		default:
			lasting = append(quorum.Without(lasting, m.member.ID), quorum.Voter{ID: m.member.ID})
		}
	}
	return lasting
}

// addsAfter names what that time is counted from.
func (m *machine) addsAfter() string {
	if m.UpSince.After(m.begun()) {
		return "node was registered"
	}
	return m.beginning()
}

// begun is since when a machine may come up: one that was made ahead was held back after its creation.
func (m *machine) begun() time.Time { return latest(m.Created, m.Started) }

// beginning names what a machine began with.
func (m *machine) beginning() string {
	if m.Started.IsZero() {
		return "creation"
	}
	return "bootstrap was started"
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}

// judge finds out how far a machine has come.
func (s *state) judge(given Machine) *machine {
	m := &machine{Machine: given, member: s.memberOf(given.Name)}
	m.health, m.why = s.health(m)
	why := m.why
	switch {
	case m.Deleting:
		m.standing, m.until = leaving, s.addsUntil(m)
	case m.Failed != "" && (!m.isUp() || m.health == Unhealthy):
		m.standing, m.why = failed, "failed: "+m.Failed
	case m.isHeld():
		m.standing, m.why = joining, "was made ahead, and its bootstrap is held back"
	case m.lostMember(s.Policy) && m.member == nil:
		m.standing, m.why = unhealthy, "has no etcd member, and gets none: "+m.CannotJoin
	case m.Gone && !m.isUp():
		m.standing, m.why = failed, m.CannotJoin
	case !m.isUp():
		m.until = m.begun().Add(joinTimeout)
		m.standing, m.why = s.onTheWay(m)
	case m.health == Healthy:
		m.standing = complete
	case s.Now.Before(m.UpSince.Add(componentsTimeout)):
		m.standing, m.until = joining, m.UpSince.Add(componentsTimeout)
		m.why = s.cameUp() + ", not yet healthy: " + why
	case m.health == Unhealthy:
		m.standing = unhealthy
	default:
		m.standing = unknown
	}
	return m
}

// cameUp says that a machine is up.
func (s *state) cameUp() string {
	if s.Policy.EtcdOnly {
		return "has its etcd member"
	}
	return "has its node"
}

// onTheWay says what a machine without a Node is doing.
func (s *state) onTheWay(m *machine) (Standing, string) {
	switch {
	case !s.Now.Before(m.until):
		return late, "has not joined, " + s.since(m.begun()) + " after its " + m.beginning()
	case m.member != nil && m.member.Name == "":
		return joining, "etcd member " + m.member.ID + " has not started yet"
	case m.member != nil && m.member.Learner:
		return joining, "etcd member " + m.member.ID + " is a learner, not yet promoted"
	case m.member != nil:
		return joining, "etcd member " + m.member.ID + " votes, no node yet"
	case s.Policy.EtcdOnly:
		return joining, "no etcd member yet"
	}
	return joining, "no node yet"
}

// health is that of a machine's components and member together, and what is not healthy.
func (s *state) health(m *machine) (Health, string) {
	worst := Healthy
	var why []string
	if m.Gone {
		return Unhealthy, m.CannotJoin
	}
	blame := func(h Health, what string) {
		if worst != Unhealthy {
			worst = h
		}
		why = append(why, what)
	}
	for _, c := range m.Components {
		if c.Health != Healthy {
			blame(c.Health, c.Name+" is "+describe(c.Health, c.Why))
		}
	}
	if len(m.Components) == 0 {
		blame(Unknown, "its components are not known")
	}
	switch {
	case !s.Etcd.Ours():
	case m.member == nil && len(s.orphans()) == 0 && s.Etcd.Known:
		blame(Unhealthy, "it has no etcd member")
	case m.member == nil:
		blame(Unknown, "no etcd member is known for it")
	case m.member.Learner:
		blame(Unhealthy, "etcd member "+m.member.ID+" is still a learner")
	case m.member.Health != Healthy:
		blame(m.member.Health, "etcd member "+m.member.ID+" is "+describe(m.member.Health, m.member.Why))
	case !m.member.isSound():
		blame(Unhealthy, "etcd member "+m.member.ID+" raises "+corrupt)
	}
	return worst, strings.Join(why, ", ")
}

func describe(h Health, why string) string {
	text := "not known"
	if h == Unhealthy {
		text = "not healthy"
	}
	if why != "" {
		text += " (" + why + ")"
	}
	return text
}

// memberOf returns the member that runs on a machine; nil when none is known.
func (s *state) memberOf(name string) *Member {
	for i := range s.Etcd.Members {
		if m := &s.Etcd.Members[i]; m.Machine == name {
			return m
		}
	}
	return nil
}

// orphans are the voters for which no machine is known, first those that would be missed
// most. Any machine without a member may be the one that one of them runs on.
func (s *state) orphans() []*Member {
	var found []*Member
	for _, health := range []Health{Healthy, Unknown, Unhealthy} {
		for i := range s.Etcd.Members {
			if m := &s.Etcd.Members[i]; !m.Learner && m.Health == health && !s.has(m.Machine) {
				found = append(found, m)
			}
		}
	}
	return found
}

// has reports whether there is a machine of that name.
func (s *state) has(machine string) bool {
	return slices.ContainsFunc(s.Machines, func(m Machine) bool { return m.Name == machine })
}

// with returns the machines that have one of these standings, the oldest first.
func (s *state) with(these ...Standing) []*machine {
	var found []*machine
	for _, m := range s.machines {
		if slices.Contains(these, m.standing) {
			found = append(found, m)
		}
	}
	return found
}

// staying returns how many machines are not being deleted.
func (s *state) staying() int { return len(s.machines) - len(s.with(leaving)) }

// again is how long until the next moment at which time alone changes a decision.
func (s *state) again() time.Duration {
	var soonest time.Duration
	consider := func(t time.Time) {
		d := t.Sub(s.Now)
		switch {
		case d <= 0:
		case soonest == 0:
			soonest = d
		default:
			soonest = min(soonest, d)
		}
	}
	for _, m := range s.machines {
		consider(m.until)
	}
	for i := range s.Etcd.Members {
		consider(s.stuckAt(&s.Etcd.Members[i]))
	}
	s.voterMoments(consider)
	s.repairMoments(consider)
	s.rolloutMoments(consider)
	s.slotMoments(consider)
	filled{s}.moments(consider)
	tending{s}.moments(consider)
	if s.waitForLimit().decided {
		consider(s.nextReplacement())
	}
	if (opening{s}).wait().decided {
		consider(s.Group.Window.Opens)
	}
	consider(s.Group.Backup.Taken.Add(-mostAhead)) // one whose time is ahead counts then
	if r := s.Recovery; !r.Begun {
		consider(r.Approved.Add(recoveryApproval))
	} else {
		consider(s.Cluster.silentEnough())
	}
	for _, c := range s.chores {
		consider(c.Expires.Add(-renewSoon))
	}
	return soonest
}

// voterMoments are when time alone lets a silent voter count as one that does not answer, or the quorum as lost.
func (s *state) voterMoments(consider func(time.Time)) {
	for _, e := range s.homeless() {
		if e.Health == Unknown && !e.Since.IsZero() {
			consider(e.answers())
		}
	}
	if s.hasQuorum() {
		return
	}
	for _, m := range s.Etcd.Members {
		if !m.Learner {
			consider(m.Since.Add(quorumProofTimeout))
		}
	}
}

// rolloutMoments are when time alone may let an outdated machine go, or etcd be lowered.
func (s *state) rolloutMoments(consider func(time.Time)) {
	for _, m := range s.machines {
		if m.member == nil && m.canJoin() && (s.isReplaced(m) || len(s.tooNew()) > 0 && m.isOutdated()) {
			consider(s.addsUntil(m)) // until then it cannot be discarded, or etcd be lowered
		}
		if e := m.member; e != nil && s.isReplaced(m) {
			consider(e.Since.Add(silentVoterTimeout)) // until then it may recover, or answer
		}
	}
}

// repairMoments are when time alone may let a marked machine be replaced.
func (s *state) repairMoments(consider func(time.Time)) {
	for _, m := range s.marked() {
		if m.member == nil && m.canJoin() {
			consider(s.addsUntil(m))
		}
		consider(s.mayRetry(m))
		consider(m.Replaced.Add(s.Policy.Repair.Healthy))
		for _, e := range s.mayHaveOn(m) {
			if e.Health == Unknown && !e.Since.IsZero() {
				consider(e.answers())
			}
		}
	}
}

// since writes how long ago something was, coarse enough that a message changes
// a few times only while it waits: each change is written to the status.
func (s *state) since(t time.Time) string { return span(s.Now.Sub(t)) }

// age writes exactly how long ago something was: for a step, which is told once.
func (s *state) age(t time.Time) string { return s.Now.Sub(t).Round(time.Second).String() }

// span writes a time, rounded down to one of a few.
func span(d time.Duration) string {
	if d >= 2*24*time.Hour {
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
	for _, h := range []time.Duration{24, 12, 6, 2} {
		if d >= h*time.Hour {
			return fmt.Sprintf("%d h", h)
		}
	}
	for _, m := range []time.Duration{60, 30, 10, 5, 2, 1} {
		if d >= m*time.Minute {
			return fmt.Sprintf("%d min", m)
		}
	}
	return "less than 1 min"
}

// troubles says of each machine what it lacks.
func troubles(machines []*machine) string {
	var texts []string
	for _, m := range machines {
		texts = append(texts, m.Name+": "+m.why)
	}
	return strings.Join(texts, "; ")
}

// count writes "1 machine", "3 machines".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
