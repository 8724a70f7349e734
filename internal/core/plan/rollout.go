package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/core/quorum"
)

// discardFailed takes machines away that are outdated before they ever came up: who corrects
// or reverts what was wrong with them need not wait for them.
func discardFailed(s *state) opinion {
	var later []string
	for _, m := range s.machines {
		if !s.isStillborn(m) {
			continue
		}
		why := s.cannotDiscard(m)
		if why == "" {
			return s.discard(m)
		}
		later = append(later, m.Name+" "+why)
	}
	if len(later) > 0 {
		return pass("%s", strings.Join(later, "; "))
	}
	return pass("no outdated machine that never came up is to be replaced")
}

// discard takes an outdated machine away before it is complete. One that may have served is replaced by it, and counts.
func (s *state) discard(m *machine) opinion {
	if !s.mayHaveServed(m) {
		return s.takeAway(m, "Outdated", m.Name+" never came up, and is outdated: "+m.Outdated)
	}
	v := s.takeAway(m, "Outdated", m.Name+" is outdated: "+m.Outdated+"; "+m.why)
	if s.staying() <= s.Want.Replicas+1 {
		return s.asReplacement(v)
	}
	return v
}

// isStillborn: a machine is outdated and not complete since it was created, for all that can be seen now, and another takes its place.
func (s *state) isStillborn(m *machine) bool {
	return s.isReplaced(m) && (m.standing == failed || m.standing == late || m.standing == joining)
}

// mayHaveServed reports whether a machine may have been complete before now. No fact records that it was. What it lacks now, it may lack
// for a moment only: a component or a member restarts or cannot be asked, or its Node was deleted. A machine that never came up has no
// voter, and, where its members are not ours to ask, no Node.
func (s *state) mayHaveServed(m *machine) bool {
	switch {
	case s.isNew():
		return false
	case s.Etcd.Ours():
		return s.mayVote(m)
	}
	return m.isUp()
}

// heldRollout says what holds the replacement of a machine that may have served; empty: nothing does, or the machine is one more than
// wanted.
func (s *state) heldRollout(m *machine) string {
	switch {
	case !s.mayHaveServed(m), s.staying() > s.Want.Replicas:
		return ""
	case s.isUnapproved():
		return "its replacement is not approved"
	case s.Group.Window.isClosed():
		return "none may begin to be replaced now"
	case s.overLimit(m.Name):
		return "maxReplacementsPerDay is reached"
	case gate{s}.holds():
		return "none is replaced before there is a backup"
	case len(s.failedUpdates()) > 0:
		return "none is replaced beside a failed update"
	}
	return ""
}

// cannotDiscard says why a machine that never came up stays for now; empty if it can go.
func (s *state) cannotDiscard(m *machine) string {
	if s.Want.isRefused() {
		return "stays while the spec is refused"
	}
	if v := s.prepared(); v.decided && s.staying() <= s.Want.Replicas {
		return "could not be replaced: " + v.decision.Message
	}
	unplaced := s.placed()
	switch {
	case s.isNew():
		return ""
	case unplaced.decided && !m.isMarked() && !m.isHeld():
		return "stays: " + unplaced.decision.Message
	case s.keptByAlarm(m) != "":
		return s.keptByAlarm(m)
	case s.heldRollout(m) != "":
		return "may have served, and " + s.heldRollout(m)
	case s.mayVote(m) && s.staying() < s.Want.Replicas:
		return "votes, and goes when another is there"
	case m.isUp() && s.fitWithout(m) < s.least():
		return "has its node and may be about to serve, and goes when enough others do"
	}
	return cmp.Or(s.cannotDelete(m), s.busyWith(m))
}

// least is how many fit machines a rollout leaves in place.
func (s *state) least() int { return s.Want.Replicas - 1 + s.Policy.Surge }

// busyWith names the machine whose voter leaves and that another must wait for; empty: there is
// none. A machine without a voter, or with a dead one, waits for none: the quorum only gains. Nor does a machine wait for one that
// stays because no other API server is healthy: that one waits for a machine that takes the place of the broken one.
func (s *state) busyWith(m *machine) string {
	if !s.mayAnswer(m) {
		return ""
	}
	for _, o := range s.with(leaving) {
		if s.mayVote(o) && (!o.HookDue || s.servesAlone(o) == "") {
			return "waits for " + o.Name + ", whose voter leaves"
		}
	}
	return ""
}

// rollOut replaces outdated machines one by one: with surge it adds one more than
// wanted, and scale down takes an outdated one away; without, it takes one away, and
// grow adds another. It goes on only while all that is up to date is fit.
func rollOut(s *state) opinion {
	old := s.outdated()
	if len(old) == 0 {
		return pass("no outdated machine is to be replaced")
	}
	if why := holdsRollout(s, old); why != "" {
		return pass("%s outdated, and %s", count(len(old), "machine"), why)
	}
	if s.uneven() {
		return s.waitForOdd()
	}
	if v := s.prepared(); v.decided {
		return v
	}
	why := fmt.Sprintf("%s outdated", count(len(old), "machine"))
	goes := s.leastNeeded(s.allowed(old))
	if s.Policy.Surge == 0 && s.isGivenUp(goes) {
		return s.asReplacement(s.takeAway(goes, "RollingOut", why+"; "+goes.Name+": "+goes.why))
	}
	if v := s.mayJoin(); v.decided {
		return v
	}
	if s.stopped() || s.Policy.Surge == 0 && s.fitWithout(goes) < s.least() {
		return wait("RolloutStopped", "%s, and waits: %s", why, s.unfit())
	}
	if s.Policy.Surge == 0 {
		return s.asReplacement(s.takeAway(goes, "RollingOut", why+"; "+goes.Name+": "+s.whyReplaced(goes)))
	}
	return do(s.create(), "RollingOut", "%s; %s: %s", why, goes.Name, s.whyReplaced(goes))
}

// holdsRollout says why no outdated machine is replaced now; empty: nothing holds the rollout.
func holdsRollout(s *state, old []*machine) string {
	switch {
	case s.isUnapproved():
		return "their replacement is not approved"
	case s.Group.Window.isClosed():
		return "none may begin to be replaced now"
	case s.heldByLimit(old):
		return "maxReplacementsPerDay is reached"
	case len(s.failedUpdates()) > 0:
		return "none is replaced beside a failed update"
	case gate{s}.holdsAlone():
		return "none is replaced before there is a backup"
	case s.staying() > s.Want.Replicas:
		return "one more than wanted is there"
	}
	return ""
}

// isGivenUp: a machine is broken, and nothing keeps it until others are fit.
func (s *state) isGivenUp(m *machine) bool { return m.broken() && !s.standsBy(m, s.least()) }

// outdated returns the machines that stay until others have taken their place.
func (s *state) outdated() []*machine { return s.those(s.isReplaced) }

// those returns the machines that are not being deleted and of which something is true.
func (s *state) those(is func(*machine) bool) []*machine {
	var found []*machine
	for _, m := range s.machines {
		if m.standing != leaving && is(m) {
			found = append(found, m)
		}
	}
	return found
}

// fit reports whether a machine is all that a rollout waits for: complete, and, where
// those that it replaces are, with a Node that is ready, and with all gates passed.
func (s *state) fit(m *machine) bool { return m.standing == complete && s.lacks(m) == "" }

// lacks says what a complete machine lacks to take the place of another; empty: nothing.
func (s *state) lacks(m *machine) string {
	switch {
	case s.isReplaced(m):
		return ""
	case m.Gate != "":
		return "readiness gate " + m.Gate + " is not passed"
	case !m.Ready && slices.ContainsFunc(s.outdated(), func(o *machine) bool { return o.Ready }):
		return "its node is not ready, and those that it replaces are"
	}
	return ""
}

// stopped: a machine that is up to date is not fit, and the rest might become as that one is.
func (s *state) stopped() bool {
	return len(s.those(func(m *machine) bool { return !s.isReplaced(m) && !s.fit(m) })) > 0
}

// unfit says of each machine that is not fit why.
func (s *state) unfit() string {
	var texts []string
	for _, m := range s.those(func(m *machine) bool { return !s.fit(m) }) {
		texts = append(texts, m.Name+": "+cmp.Or(m.why, s.lacks(m)))
	}
	return strings.Join(texts, "; ")
}

// takeAway deletes a machine, as soon as the group can live without it and its
// leader has handed over.
func (s *state) takeAway(m *machine, reason, why string) opinion {
	if !s.isNew() && !m.isHeld() {
		if v := s.placed(); v.decided && !m.isMarked() {
			return v
		}
		if text := s.keptByAlarm(m); text != "" {
			return wait("EtcdAlarm", "%s, but %s %s", why, m.Name, text)
		}
		if not := s.cannotDelete(m); not != "" {
			return wait("CannotSpare", "%s, but %s %s", why, m.Name, not)
		}
	}
	if e := s.leaderOn(m); e != nil {
		if v := s.handOver(e, reason, why+"; "+m.Name+" goes"); v.decided {
			return v
		}
	}
	return do(Step{Verb: Delete, Machine: m.Name}, reason, "%s%s", why, s.edge(m))
}

// leaderOn is the leader, if a machine holds it, or may for all that is known; nil: it does not.
func (s *state) leaderOn(m *machine) *Member {
	for _, e := range s.mayHaveOn(m) {
		if e.Leader {
			return e
		}
	}
	return nil
}

// edge warns when no voter may fail any more from the time at which the machine's own has
// left to that at which another has joined, where one could before.
func (s *state) edge(m *machine) string {
	if m.member == nil || s.staying() > s.Want.Replicas {
		return ""
	}
	if before, after := quorum.Spare(s.voters), quorum.Spare(quorum.Without(s.voters, m.member.ID)); after > 0 || before <= 0 {
		return ""
	}
	return "; until another has joined no voter may fail"
}
