package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/quorum"
)

// How long something may take before it counts as stuck.
const (
	// startPatience is what a member gets that nobody has a reason to wait for: its
	// machine is gone or failed, or registered its Node that long ago.
	startPatience = 20 * time.Second
	// turnPatience is what a learner gets while others wait for their turn. Images are
	// pulled before the member is added, so that etcd starts within seconds, on a busy
	// host within half a minute; who is removed too early never joins any more, and
	// those who wait too long give up, after kubeadmPatience.
	turnPatience = 45 * time.Second
	// kubeadmPatience is kubeadm's own timeout for calls to etcd, after which nobody
	// starts or promotes the learner any more.
	kubeadmPatience = 2 * time.Minute
	// promotePatience is what a healthy learner gets to be promoted: a large store
	// takes its time to arrive.
	promotePatience = 5 * time.Minute
	// joinPatience is how long a machine may take from its creation to its Node.
	joinPatience = 10 * time.Minute
	// provePatience is how long voters may be silent before the quorum counts as lost:
	// a learner that was just promoted, and a member that starts anew, answer within seconds.
	provePatience = 30 * time.Second
	// upPatience is how long a machine may take from its Node to all components.
	upPatience = 5 * time.Minute
)

// standing is how far a machine has come.
type standing int

const (
	leaving   standing = iota // it is being deleted
	failed                    // its bootstrap ended with an error
	complete                  // its Node, its components and its voter are there and healthy
	joining                   // it is on its way, and not late
	late                      // it has no Node and should have one by now
	unhealthy                 // something that it should run is proven to be broken
	unknown                   // something that it should run is neither proven healthy nor broken
)

// machine is an observed machine with what follows from the rest.
type machine struct {
	Machine
	standing standing
	member   *Member   // nil: none is known to run on it
	why      string    // what is missing, unless it is complete
	until    time.Time // when time alone may change its standing; zero or past: never
}

// state is what the rules look at: what was observed, in a fixed order, with
// what is counted more than once counted in one place.
type state struct {
	Observed
	machines []*machine
	voters   []quorum.Voter
	learners []*Member
}

// newState copies and sorts what was observed, so that its order decides nothing.
func newState(o Observed) *state {
	s := &state{Observed: o}
	s.Machines = slices.Clone(o.Machines)
	slices.SortFunc(s.Machines, func(a, b Machine) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
	})
	s.Etcd.Members = slices.Clone(o.Etcd.Members)
	slices.SortFunc(s.Etcd.Members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	s.Want.Domains = sorted(o.Want.Domains)
	s.Strangers = slices.Clone(o.Strangers)
	slices.SortFunc(s.Strangers, func(a, b Stranger) int { return cmp.Compare(a.Name, b.Name) })
	s.Workers = sorted(o.Workers)
	s.Cluster.MissingCertificates = sorted(o.Cluster.MissingCertificates)
	for i := range s.Etcd.Members {
		m := &s.Etcd.Members[i]
		if m.Learner {
			s.learners = append(s.learners, m)
		} else {
			s.voters = append(s.voters, quorum.Voter{ID: m.ID, Healthy: m.Health == Healthy})
		}
	}
	s.machines = make([]*machine, len(s.Machines))
	for i, m := range s.Machines {
		m.Components = slices.Clone(m.Components)
		slices.SortFunc(m.Components, func(a, b Component) int { return cmp.Compare(a.Name, b.Name) })
		s.machines[i] = s.judge(m)
	}
	return s
}

func sorted(names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	return names
}

// judge finds out how far a machine has come.
func (s *state) judge(given Machine) *machine {
	m := &machine{Machine: given, member: s.memberOf(given.Name)}
	health, why := s.health(m)
	m.why = why
	switch {
	case m.Deleting:
		m.standing, m.until = leaving, m.Created.Add(joinPatience)
	case m.Failed != "":
		m.standing, m.why = failed, "failed: "+m.Failed
	case m.Node == "":
		m.until = m.Created.Add(joinPatience)
		m.standing, m.why = s.onTheWay(m)
	case health == Healthy:
		m.standing = complete
	case s.Now.Before(m.NodeSince.Add(upPatience)):
		m.standing, m.until = joining, m.NodeSince.Add(upPatience)
		m.why = "has its node for " + s.since(m.NodeSince) + ", not yet healthy: " + why
	case health == Unhealthy:
		m.standing = unhealthy
	default:
		m.standing = unknown
	}
	return m
}

// onTheWay says what a machine without a Node is doing.
func (s *state) onTheWay(m *machine) (standing, string) {
	age := s.since(m.Created)
	switch {
	case !s.Now.Before(m.until):
		return late, "has not joined, " + age + " after its creation"
	case m.member != nil && m.member.Name == "":
		return joining, "etcd member " + m.member.ID + " has not started for " + s.since(m.member.Since)
	case m.member != nil && m.member.Learner:
		return joining, "etcd member " + m.member.ID + " is a learner, not yet promoted for " + s.since(m.member.Since)
	case m.member != nil:
		return joining, "etcd member " + m.member.ID + " votes, no node yet, " + age + " after its creation"
	}
	return joining, "no node yet, " + age + " after its creation"
}

// health is that of a machine's components and member together, and what is not healthy.
func (s *state) health(m *machine) (Health, string) {
	worst := Healthy
	var why []string
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
	case !s.Etcd.Managed:
	case m.member == nil && len(s.orphans()) == 0 && s.Etcd.Known:
		blame(Unhealthy, "it has no etcd member")
	case m.member == nil:
		blame(Unknown, "no etcd member is known for it")
	case m.member.Learner:
		blame(Unhealthy, "etcd member "+m.member.ID+" is still a learner")
	case m.member.Health != Healthy:
		blame(m.member.Health, "etcd member "+m.member.ID+" is "+describe(m.member.Health, ""))
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
		if s.Etcd.Members[i].Machine == name {
			return &s.Etcd.Members[i]
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
func (s *state) with(these ...standing) []*machine {
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
	if !s.hasQuorum() {
		for _, m := range s.Etcd.Members {
			if !m.Learner {
				consider(m.Since.Add(provePatience))
			}
		}
	}
	for _, m := range s.marked() {
		consider(s.mayRetry(m))
		consider(m.Replaced.Add(s.Want.Repair.Healthy))
	}
	if s.renewable() {
		consider(s.Cluster.Kubeconfig.Expires.Add(-renewSoon))
	}
	return soonest
}

// since writes how long ago something was, coarse enough that a message does
// not change with every look.
func (s *state) since(t time.Time) string {
	if t.IsZero() {
		return span(0)
	}
	return span(s.Now.Sub(t))
}

func span(d time.Duration) string {
	switch {
	case d >= 2*24*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d h", d/time.Hour)
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", max(d, 0)/(5*time.Second)*5)
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
