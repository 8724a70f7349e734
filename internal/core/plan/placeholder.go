package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/quorum"
)

// A machine that hangs in its bootstrap may add its member to etcd at any moment, and a voter that goes with its machine costs a small
// quorum. etcd takes one learner at a time. So before such a machine is released, a placeholder takes the learner slot: a learner that no
// process will ever start. etcd refuses other learners while it is in the list. It is removed when the machine is gone.

// mostPlaceholders is how many learner slots placeholders take: a user who sets more of them wants machines to join, and not to be kept
// out.
const mostPlaceholders = 5

// maxLearners is how many learners etcd takes at once: its flag --max-learners, by default 1.
func (s *state) maxLearners() int { return max(1, s.Etcd.MaxLearners) }

// slotsTaken reports whether placeholders take all learner slots of etcd.
func (s *state) slotsTaken() bool { return len(s.placeholders) >= s.maxLearners() }

// joinsAsLearner reports whether kubeadm on a machine adds its member as a learner.
func (s *state) joinsAsLearner(m *machine) bool { return s.Policy.Learners && !m.JoinsAsVoter }

// mayAdd reports whether kubeadm on a machine without a member may add one now: it has had less than its time, and no placeholder keeps it
// out.
func (s *state) mayAdd(m *machine) bool {
	return s.hasTimeToAdd(m) && (!s.slotsTaken() || !s.joinsAsLearner(m))
}

// hasTimeToAdd reports whether kubeadm on a machine without a member may still add one, unless etcd refuses it.
func (s *state) hasTimeToAdd(m *machine) bool { return m.canJoin() && s.Now.Before(s.addsUntil(m)) }

// addsUntil is when kubeadm on a machine has had its time to add a member.
func (s *state) addsUntil(m *machine) time.Time {
	return latest(m.begun(), m.UpSince).Add(s.Policy.MemberAddTime())
}

// MemberAddTime is how long after its creation, or its Node's registration, kubeadm on a machine may still add a member: MemberAdd, or 30
// min. It is never less than joinTimeout: until then a machine without a Node counts as one that joins.
func (p Policy) MemberAddTime() time.Duration {
	if p.MemberAdd > 0 {
		return max(p.MemberAdd, joinTimeout)
	}
	return memberAddTimeout
}

// untilAdded returns until when the rules wait for a machine that may still add a member, and whose voter would be missed.
func (s *state) untilAdded(m *machine) string {
	return fmt.Sprintf("waiting until %s after its %s", s.Policy.MemberAddTime(), m.addsAfter())
}

// cannotShutOut says why no placeholder can keep a machine out of etcd now; empty: one can, or does.
func (s *state) cannotShutOut(m *machine) string {
	switch {
	case !s.joinsAsLearner(m):
		return "it joins as a voter, which a placeholder does not keep out"
	case s.maxLearners() > mostPlaceholders:
		return fmt.Sprintf("etcd takes more than %d learners at once (--max-learners), or its pod does not say how many (--config-file)",
			mostPlaceholders)
	case s.Etcd.Downgrade != "":
		return "etcd takes no new member during a downgrade"
	case s.ailing() != "":
		return "etcd takes no new member: " + s.ailing()
	case s.corruptVoter() != nil:
		return "no member is added while " + s.corruptVoter().label() + " raises " + corrupt
	case s.learnerInSlot() != nil:
		return "waiting while learner " + s.learnerInSlot().label() + " takes the slot of a placeholder"
	case s.letIn() != nil && m.Hook:
		o := s.letIn()
		return fmt.Sprintf("%s joins, and a placeholder would keep it out as well: waiting until %s after its %s", o.Name, othersTurn,
			o.beginning())
	}
	return ""
}

// corruptVoter returns a voter whose data differ from those of the others; nil: there is none.
func (s *state) corruptVoter() *Member {
	for i := range s.Etcd.Members {
		if m := &s.Etcd.Members[i]; !m.Learner && !m.isSound() {
			return m
		}
	}
	return nil
}

// waitsForJoiner reports whether a placeholder waits for another machine that joins.
func (s *state) waitsForJoiner() bool { return s.learnerInSlot() != nil || s.letIn() != nil }

// learnerInSlot is a learner that takes the slot which a placeholder would take: it votes or is removed in time; nil: a slot is free.
func (s *state) learnerInSlot() *Member {
	if len(s.learners) == 0 || len(s.learners)+len(s.placeholders) < s.maxLearners() {
		return nil
	}
	return s.learners[0]
}

// shutOut says that a machine which is held because of its late voter waits, and why no placeholder keeps it out; empty: one can, so that
// it need not wait. One without its hook goes at once, and nothing keeps it out in time.
func (s *state) shutOut(m *machine, cost string) string {
	not := s.cannotShutOut(m)
	if !m.Hook {
		not = cmp.Or(not, "its hook is gone")
	}
	switch {
	case not == "":
		return ""
	case s.waitsForJoiner():
		return cost + ": " + not
	}
	return cost + ": " + s.untilAdded(m) + "; " + not
}

// keepOut lets a placeholder keep a machine out of etcd that is about to go; nil: none must be. passedOver is why others stay for now.
func (s *state) keepOut(m *machine, passedOver []string) opinion {
	switch {
	case m != nil:
		return do(Step{Verb: AddPlaceholder, Machine: m.Name}, "MachineDeleting",
			"%s is being deleted and may still join; a placeholder takes etcd's learner slot until it is gone", m.Name)
	case len(passedOver) == 0:
		return pass("%s, and is kept out of etcd", s.departures(s.keptOut()))
	}
	return pass("%s", strings.Join(passedOver, "; "))
}

// endangers reports whether a machine without a member may still add a voter that would be missed when the machine goes.
func (s *state) endangers(m *machine) bool { return s.costsQuorum(m) || s.costsSpare(m) }

// costsQuorum reports whether the quorum would be lost if a machine added a voter and went with it.
func (s *state) costsQuorum(m *machine) bool {
	return s.mayAdd(m) && !quorum.Has(s.lastingWith(m))
}

// costsSpare reports whether no voter could fail any more, if a machine added one and went with it, where one can now. Where only a step
// promotes learners, none votes on a machine that goes.
func (s *state) costsSpare(m *machine) bool {
	return !s.Policy.EtcdOnly && m.member == nil && s.mayAdd(m) && quorum.Spare(s.lasting) > 0 && quorum.Spare(s.lastingWith(m)) <= 0
}

// freeLearnerSlot removes placeholders that no longer keep out a machine, also those of an earlier manager.
func freeLearnerSlot(s *state) opinion {
	if len(s.placeholders) == 0 {
		return pass("no placeholder takes a learner slot of etcd")
	}
	e := s.placeholders[0]
	if _, why := s.doubt(); why != "" {
		return pass("placeholder %s stays until the facts are known", e.ID)
	}
	if len(s.Uncontrolled) > 0 {
		return pass("placeholder %s may keep out a machine that the group does not control: %s", e.ID, s.Uncontrolled[0].Name)
	}
	if kept := s.keptOut(); len(kept) > 0 {
		return pass("placeholder %s keeps out %s, whose voter would be missed", e.ID, names(kept))
	}
	return do(Step{Verb: RemoveMember, Member: e.ID}, "PlaceholderUnneeded",
		"placeholder %s keeps out no machine any more; others can join when it is removed", e.ID)
}

// keptOut returns the machines that go, may still add a member, and together would cost the quorum, or the last voter that can fail, if no
// placeholder kept them out. None: without a placeholder nothing would be missed.
func (s *state) keptOut() []*machine {
	if !s.Etcd.Ours() || s.isNew() {
		return nil
	}
	var kept []*machine
	for _, m := range s.with(leaving) {
		if m.member == nil && (m.isReleased() || m.HookDue) && s.hasTimeToAdd(m) && s.joinsAsLearner(m) {
			kept = append(kept, m)
		}
	}
	without := slices.Clone(s.lasting)
	for _, m := range kept {
		without = quorum.Without(without, m.Name)
	}
	with := slices.Clone(without)
	for _, m := range kept {
		with = append(with, quorum.Voter{ID: m.Name})
	}
	if quorum.Has(with) && (s.Policy.EtcdOnly || quorum.Spare(without) <= 0 || quorum.Spare(with) > 0) {
		return nil
	}
	return kept
}

// loose is a machine that was released, and whose late voter would be missed now: its placeholder is gone, or another voter is; nil: there
// is none, or no placeholder can keep it out.
func (s *state) loose() *machine {
	for _, m := range s.keptOut() {
		if m.isReleased() && !s.slotsTaken() && s.cannotShutOut(m) == "" {
			return m
		}
	}
	return nil
}

// othersTurn is how long a machine that joins has to add its learner before a placeholder may take the slot. While one that goes lives on,
// it would be kept out as well, and kubeadm gives up.
const othersTurn = 3 * time.Minute

// letIn returns the machine that is let in before a placeholder takes the learner slot; nil: there is none.
func (s *state) letIn() *machine {
	for _, m := range s.with(joining) {
		if m.member == nil && m.canJoin() && !m.isUp() && !m.isMarked() && !s.isReplaced(m) && s.Now.Before(m.begun().Add(othersTurn)) {
			return m
		}
	}
	return nil
}

// slotMoments are when time alone lets a placeholder take the learner slot.
func (s *state) slotMoments(consider func(time.Time)) {
	if m := s.letIn(); m != nil && len(s.placeholders) < s.maxLearners() {
		consider(m.begun().Add(othersTurn))
	}
}
