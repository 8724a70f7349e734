package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// removeStrays removes members that nothing will ever start or keep.
func removeStrays(s *state) opinion {
	if !s.Etcd.Ours() {
		return pass("etcd is not on these machines")
	}
	var later []string
	for _, m := range s.strays() {
		at := s.stuckAt(m)
		if s.Now.Before(at) {
			later = append(later, fmt.Sprintf("%s %s, and is given time for it", m.label(), m.progress()))
			continue
		}
		if why := s.cannotSpare(m); why != "" {
			later = append(later, m.label()+" "+why)
			continue
		}
		if m.Machine == "" {
			return s.takeOut(m, "StrayMember", "no machine is known for etcd member "+m.label()+", for "+s.age(m.Since))
		}
		return s.takeOut(m, "StuckMember", "etcd member "+m.label()+" "+m.progress()+" for "+s.age(m.Since))
	}
	for _, m := range s.orphans() {
		if m.answersAndVotes() {
			later = append(later, m.label()+" answers and votes, and is left alone though no machine is known for it")
		}
	}
	if len(later) > 0 {
		return pass("%s", strings.Join(later, "; "))
	}
	return pass("%s, each on a machine that it may stay on", count(len(s.Etcd.Members), "etcd member"))
}

// progress says what a member that joins has not done.
func (m *Member) progress() string {
	switch {
	case m.Name == "":
		return "has not started"
	case !m.Learner:
		return "has no machine"
	case m.Health == Unhealthy:
		return "is a learner and does not answer"
	}
	return "is a learner and was not promoted"
}

// strays are the members that may have to go, those that cost the quorum least first.
func (s *state) strays() []*Member {
	var found []*Member
	for i := range s.Etcd.Members {
		if m := &s.Etcd.Members[i]; !s.stuckAt(m).IsZero() {
			found = append(found, m)
		}
	}
	slices.SortStableFunc(found, func(a, b *Member) int { return cmp.Compare(a.loss(), b.loss()) })
	return found
}

// stuckAt is when a member, staying as it is, is no longer waited for; zero if never.
func (s *state) stuckAt(m *Member) time.Time {
	on := s.on(m.Machine)
	switch {
	case m.Since.IsZero(), m.Placeholder:
		return time.Time{} // it was seen just now, or another rule removes it
	case on == nil:
		return s.lostAt(m)
	case !m.Learner && m.Name != "":
		return time.Time{} // a voter on a machine: it is removed when the machine is deleted
	}
	return s.lateAt(m, on)
}

// lostAt is when a member is given up that no machine is known for.
func (s *state) lostAt(m *Member) time.Time {
	owners := len(s.mayOwn())
	switch {
	case choosing{s}.isChosen(m):
		return m.Since.Add(memberStartTimeout)
	case m.answersAndVotes():
		return time.Time{} // its machine may only have lost its labels: a person decides
	case m.Learner && s.isOfReleased(m):
		return m.Since
	case m.maybeAlive() && !m.Learner && len(s.those(func(o *machine) bool { return o.member == nil && !o.isHeld() })) > 0:
		return time.Time{} // a voter that lives may be on any machine that has begun to join
	case owners == 0:
		return m.Since.Add(memberStartTimeout)
	case m.maybeAlive():
		return m.Since.Add(s.promotionTime(m))
	case owners > 1, !m.Learner: // others cannot join before it is gone
		return m.Since.Add(s.turnTime())
	}
	return m.Since.Add(s.etcdCall())
}

// etcdCall is how long kubeadm tries before it gives up.
func (s *state) etcdCall() time.Duration { return cmp.Or(s.Policy.EtcdCall, kubeadmEtcdTimeout) }

// turnTime is how long the rules wait for a learner that has not started while others wait for their turn: they give up in the time of
// etcdCall.
func (s *state) turnTime() time.Duration {
	return max(memberStartTimeout, min(learnerTurnTimeout, 3*s.etcdCall()/8))
}

// promotionTime is how long the rules wait for a learner that has started. kubeadm on its machine promotes it or gives up, in the time of
// etcdCall. A learner that cannot be asked may be dead: others wait no longer for it than kubeadm tries, where kubeadm joins it.
func (s *state) promotionTime(m *Member) time.Duration {
	if m.Health == Healthy || s.Policy.EtcdOnly {
		return max(promotionTimeout, s.etcdCall())
	}
	return s.etcdCall()
}

// lateAt is when a member is given up that joins on a machine.
func (s *state) lateAt(m *Member, on *machine) time.Time {
	switch {
	case on.standing == failed && (!m.maybeAlive() || !on.canJoin()), on.standing == leaving:
		return m.Since.Add(memberStartTimeout)
	case m.maybeAlive():
		return m.Since.Add(s.promotionTime(m))
	case on.UpSince.After(m.Since): // etcd starts before the Node, unless kubeadm is older than v1.31
		return on.UpSince.Add(memberStartTimeout)
	case len(s.mayOwn()) > 0:
		return m.Since.Add(s.turnTime())
	}
	return m.Since.Add(s.etcdCall())
}
