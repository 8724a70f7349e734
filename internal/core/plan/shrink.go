package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// scaleDown deletes one machine of more than wanted.
func scaleDown(s *state) opinion {
	have := s.staying()
	switch {
	case have <= s.Want.Replicas:
		return pass("%s, %d wanted", count(have, "machine"), s.Want.Replicas)
	case s.uneven():
		return s.waitForOdd()
	}
	if unsure := s.those(func(m *machine) bool { return m.standing == unknown && !s.isReplaced(m) }); len(unsure) > 0 {
		return wait("MachineUnknown", "%s", troubles(unsure))
	}
	m := s.leastNeeded(s.those(func(*machine) bool { return true }))
	least := s.Want.Replicas
	// One that serves must not hold up one that is replaced anyway and serves no client.
	if dead := s.those(func(m *machine) bool { return m.isOutdated() && !s.standsBy(m, least) }); s.standsBy(m, least) && len(dead) > 0 {
		m = s.leastNeeded(dead)
	}
	if ill := s.waitedFor(); !s.isReplaced(m) && len(ill) > 0 {
		return wait("MachineBroken", "%s, %d wanted; machines go when all are healthy: %s", count(have, "machine"), s.Want.Replicas,
			troubles(ill))
	}
	why := fmt.Sprintf("%s, %d wanted; %s", count(have, "machine"), s.Want.Replicas, m.because(s))
	if s.standsBy(m, least) {
		return wait("RolloutStopped", "%s, and without it %d would be left that are fit: %s", why, s.fitWithout(m), s.unfit())
	}
	v := s.takeAway(m, "ScalingDown", why)
	if have == s.Want.Replicas+1 && s.isReplaced(m) {
		return s.asReplacement(v) // another has taken its place
	}
	return v
}

// waitedFor are the machines that must be healthy before one goes that is not outdated.
func (s *state) waitedFor() []*machine {
	if !s.Policy.ShrinkHealthy {
		return nil
	}
	return s.those(func(m *machine) bool { return m.standing == unhealthy && !s.isReplaced(m) && !m.DeletePreferred })
}

// standsBy: a machine serves until so many are fit without it. One that is broken does too, where it may be whole again in a moment and
// what replaces others is not fit itself.
func (s *state) standsBy(m *machine, least int) bool {
	return len(s.outdated()) > 0 && s.fitWithout(m) < least && (!m.broken() || s.mayRecover(m) && s.stopped())
}

// mayRecover: the member of a machine that is broken, where it should have one, is well, or has not been silent for long: an API server
// that starts again is no more than that.
func (s *state) mayRecover(m *machine) bool {
	if !s.Etcd.Ours() {
		return true
	}
	e := m.member
	return e != nil && (e.isSound() || s.Now.Before(e.Since.Add(silentVoterTimeout)))
}

// fitWithout counts the fit machines but one.
func (s *state) fitWithout(but *machine) int {
	return len(s.those(func(m *machine) bool { return m != but && s.fit(m) }))
}

// leastNeeded is the machine to delete of some, of which there is one at least: by
// need, the one that carries least, in the failure domain with the most machines, the oldest. Of those that are
// replaced the leader's comes last, so that a rollout moves the leadership once.
func (s *state) leastNeeded(of []*machine) *machine {
	return slices.MinFunc(of, func(a, b *machine) int {
		return cmp.Or(
			cmp.Compare(a.turn(s.isReplaced(a)), b.turn(s.isReplaced(b))),
			cmp.Compare(a.isCurrent(), b.isCurrent()),
			cmp.Compare(s.memberOrOrphan(a).loss(), s.memberOrOrphan(b).loss()),
			compareService(a, b),
			cmp.Compare(s.outside(b), s.outside(a)),
			cmp.Compare(a.lead(), b.lead()),
			-cmp.Compare(s.inDomain(a.Domain), s.inDomain(b.Domain)),
		)
	})
}

// compareService compares what two machines do for the cluster beside their voters, the one that does less first: its API server, its Node,
// its gates.
func compareService(a, b *machine) int {
	return cmp.Or(cmp.Compare(a.apiServer().rank(), b.apiServer().rank()), cmp.Compare(a.readiness(), b.readiness()))
}

// rank orders what is known of a component: broken, not known, healthy.
func (h Health) rank() int { return slices.Index([]Health{Unhealthy, Unknown, Healthy}, h) }

// readiness counts what a machine says of itself: its Node is ready, and all gates are passed.
func (m *machine) readiness() int {
	n := 0
	if m.Ready {
		n++
	}
	if m.Gate == "" {
		n++
	}
	return n
}

// isCurrent is 1 for a machine that is not outdated: before it goes one that is, also where it would be updated in place.
func (m *machine) isCurrent() int {
	if m.isOutdated() {
		return 0
	}
	return 1
}

// outside is 1 for a machine in a failure domain that the cluster has no more.
func (s *state) outside(m *machine) int {
	if m.Domain == "" || len(s.Want.Domains) == 0 || slices.Contains(s.Want.Domains, m.Domain) {
		return 0
	}
	return 1
}

// broken: it is proven not to be whole.
func (m *machine) broken() bool { return m.standing != complete && m.standing != unknown }

// turn is when a machine is deleted, of several.
type turn int

// The turns, the first first: by whether somebody wants a machine gone, whether it is outdated, and whether it is broken.
const (
	chosen turn = iota
	outdatedBroken
	outdatedUnknown
	outdated
	broken
	asWanted
)

// turn is when a machine is deleted; old: it is outdated, and is replaced for it.
func (m *machine) turn(old bool) turn {
	switch {
	case m.DeletePreferred:
		return chosen
	case old && m.broken():
		return outdatedBroken
	case m.standing == unknown: // outdated as well: no caller comes here with another
		return outdatedUnknown
	case old:
		return outdated
	case m.broken(), m.member != nil && len(m.member.Alarms) > 0:
		return broken
	}
	return asWanted
}

// lead reports whether a machine that is replaced holds the leader.
type lead int

// The values of lead: who leads is replaced last.
const (
	follows lead = iota
	leads
)

// lead reports whether a machine is outdated and its member leads.
func (m *machine) lead() lead {
	if m.isOutdated() && m.member != nil && m.member.Leader {
		return leads
	}
	return follows
}

// cannotDelete says why the group cannot live without a machine; empty if it can.
func (s *state) cannotDelete(m *machine) string {
	if m.isHeld() {
		return ""
	}
	others := 0
	for _, o := range s.machines {
		held := o.health == Healthy && s.servesAlone(o) != ""
		if o.Name != m.Name && !s.isCarriedOut(o) && (o.standing == complete || held) {
			others++
		}
	}
	if others == 0 {
		return "cannot go: no other machine is complete"
	}
	if s.Etcd.Operated() && 2*others <= len(s.machines) {
		return fmt.Sprintf("cannot go: only %d of the other %d machines are complete, and more than half of %d must be", others,
			len(s.machines)-1, len(s.machines))
	}
	// Where it may hold a member, that decides; the hook stays until it is known.
	if o := s.memberOrOrphan(m); o != nil {
		return s.cannotSpare(o)
	}
	if why := s.cannotGo(m); why != "" || m.Hook {
		return why
	}
	return s.cannotRelease(m)
}

// mayHaveOn are the members that a machine holds, or, where none is known, the voters that it may
// hold for all that is known, first those that would be missed most. Of several any may matter.
func (s *state) mayHaveOn(m *machine) []*Member {
	var found []*Member
	for i := range s.Etcd.Members {
		if e := &s.Etcd.Members[i]; e.Machine == m.Name {
			found = append(found, e)
		}
	}
	if len(found) > 0 {
		return found
	}
	return slices.DeleteFunc(s.orphans(), func(e *Member) bool { return !s.mayHold(m, e) })
}

// memberOrOrphan is the member that a machine holds, or of the voters that it may hold for all
// that is known the one that would be missed most; nil: none.
func (s *state) memberOrOrphan(m *machine) *Member {
	if found := s.mayHaveOn(m); len(found) > 0 {
		return found[0]
	}
	return nil
}

// mayVote: a machine holds a voter, or may for all that is known.
func (s *state) mayVote(m *machine) bool {
	return slices.ContainsFunc(s.mayHaveOn(m), func(e *Member) bool { return !e.Learner })
}

// because says why this machine was chosen.
func (m *machine) because(s *state) string {
	switch {
	case m.DeletePreferred:
		return m.Name + " was chosen"
	case m.isOutdated():
		return m.Name + " is outdated: " + s.whyReplaced(m)
	case m.standing != complete:
		return m.Name + ": " + m.why
	case m.Gate != "":
		return m.Name + ": readiness gate " + m.Gate + " is not passed"
	case !m.Ready:
		return m.Name + ": its node is not ready"
	}
	if m.Domain == "" {
		return m.Name + " is the oldest"
	}
	return m.Name + " is the oldest in " + m.Domain + ", which has " + count(s.inDomain(m.Domain), "machine")
}

// waitForRepair names what is broken and what Quorate cannot mend.
func waitForRepair(s *state) opinion {
	if failed := s.failedUpdates(); len(failed) > 0 {
		return wait("UpdateFailed", "%s", failures(failed))
	}
	if broken := s.with(failed, late, unhealthy, unknown); len(broken) > 0 {
		return wait("MachineBroken", "%s%s", troubles(broken), s.onlyByPerson())
	}
	if v := s.alarm(); v.decided {
		return v
	}
	for _, check := range []func() opinion{
		s.placed, s.waitForMatch, s.kept, s.waitForApproval, opening{s}.wait, s.waitForUpdates, s.waitForPerson, s.waitForLimit, gate{s}.wait,
	} {
		if v := check(); v.decided {
			return v
		}
	}
	return pass("every member has its machine, and neither an update nor a chore waits for a person")
}
