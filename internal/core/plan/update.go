package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/core/quorum"
)

// An update in place takes a machine's member and its API server away for a while, and gives them back. It is begun like a removal,
// one at a time and only where the others can do without it; until it ends, the machine counts as one that does not serve.

// recordUpdate ends updates in the objects: it records what was done, and forgets what failed and is not wanted any more.
func recordUpdate(s *state) opinion {
	for _, m := range s.those(func(m *machine) bool { return m.Update.State == UpdateDone }) {
		return do(Step{Verb: RecordUpdate, Machine: m.Name}, "Updated", "%s was updated in place, and its objects do not say so yet", m.Name)
	}
	for _, m := range s.failedUpdates() {
		if s.isUnwanted(m) {
			return do(Step{Verb: DropUpdate, Machine: m.Name}, "UpdateObsolete", "the update of %s failed, and is not wanted any more: %s", m.Name,
				m.Update.Message)
		}
	}
	return pass("no update has ended")
}

// isUnwanted: the failed update of a machine is not wanted any more, and the node is as its objects say, or is about to be.
func (s *state) isUnwanted(m *machine) bool {
	if m.Update.Changed && !m.isOutdated() {
		return false
	}
	return m.Update.Obsolete || !s.isChangedInPlace(m)
}

// followUpdate begins nothing while a machine is updated. It passes where that machine is to be replaced and can go: it may be dead.
func followUpdate(s *state) opinion {
	for _, m := range s.machines {
		switch {
		case !m.isUpdating():
		case m.isMarked() && !m.Deleting && s.cannotReplace(m) == "":
			return pass("%s is updated in place, and is to be replaced all the same: %s", m.Name, m.Marked)
		case m.Update.Unfinished:
			if why := s.cannotFinish(m); why != "" {
				// It serves as long as the update is not carried out, so that what is broken can be repaired meanwhile.
				return pass("the update of %s was begun, and not in full, and waits: %s", m.Name, why)
			}
			return do(Step{Verb: UpdateInPlace, Machine: m.Name}, "UpdatingInPlace", "the update of %s was begun, and not in full: %s", m.Name,
				m.Update.Message)
		default:
			return wait("UpdatingInPlace", "%s is updated in place: %s", m.Name, m.Update.Message)
		}
	}
	if failed := s.failedUpdates(); len(failed) > 0 && !s.Cluster.Reachable {
		return wait("UpdateFailed", "%s; the API server does not answer: %s", failures(failed), s.Cluster.Unreachable)
	}
	return pass("no machine is updated in place")
}

// carriedOut is the machine whose update is carried out, or may be at any moment; nil: there is none. One that was begun in part, and waits
// until what is broken beside it is repaired, serves meanwhile.
func (s *state) carriedOut() *machine {
	if m := s.updating(); m != nil && s.isCarriedOut(m) {
		return m
	}
	return nil
}

// isCarriedOut reports whether what runs on a machine may stop at any moment because the machine is updated in place.
func (s *state) isCarriedOut(m *machine) bool {
	return m.isUpdating() && (!m.Update.Unfinished || s.cannotFinish(m) == "")
}

// cannotFinish says why an update that was begun in part must not be carried out now; empty: it can be. Machines may have broken since it
// was begun.
func (s *state) cannotFinish(m *machine) string {
	switch {
	case m.Deleting:
		return m.Name + " is being deleted"
	case !s.Cluster.Reachable:
		return "the API server does not answer: " + s.Cluster.Unreachable
	case s.Etcd.Ours() && (!s.Etcd.Known || !s.Etcd.Agreed):
		return "the members of etcd are not known, or do not agree"
	case len(s.machines) > 1 && m.member != nil && !quorum.Has(markDown(s.lasting, m.member.ID)):
		return "without its voter the quorum would be lost: " + s.strength()
	}
	return ""
}

// updateInPlace begins the next update: the oldest machine first, the leader's last.
func updateInPlace(s *state) opinion {
	todo := s.those(s.isChangedInPlace)
	switch failed := s.failedUpdates(); {
	case len(todo) == 0:
		return pass("no machine is to be changed in place")
	case s.staying() > s.Want.Replicas:
		return pass("%s to be changed in place, and more than wanted are there", count(len(todo), "machine"))
	case s.Group.UpdatesPaused:
		return pass("%s to be changed in place, and a person holds that", count(len(todo), "machine"))
	case s.Group.NoUpgrader != "":
		return pass("%s to be changed in place, and there is %s", count(len(todo), "machine"), s.Group.NoUpgrader)
	case s.isUnapproved():
		return pass("%s to be changed in place, and that is not approved", count(len(todo), "machine"))
	case s.Group.Window.isClosed():
		return pass("%s to be changed in place, and none may begin now", count(len(todo), "machine"))
	case len(s.allowed(todo)) == 0:
		return pass("%s to be changed in place, and maxReplacementsPerDay is reached", count(len(todo), "machine"))
	case len(failed) > 0:
		return pass("no other begins beside a failed one: %s", failures(failed))
	case gate{s}.holdsAlone():
		return pass("%s to be changed in place, and none is before there is a backup", count(len(todo), "machine"))
	}
	m := slices.MinFunc(s.allowed(todo), func(a, b *machine) int { return cmp.Compare(a.lead(), b.lead()) })
	if v := s.mayUpdate(m); v.decided {
		return v
	}
	why := count(len(todo), "machine") + " to be changed in place; " + m.Name + ": " + m.Outdated
	if e := s.leaderOn(m); e != nil {
		if v := s.handOver(e, "UpdatingInPlace", why); v.decided {
			return v
		}
	}
	first := len(s.behind()) == s.staying()
	return s.asReplacement(do(Step{Verb: UpdateInPlace, Machine: m.Name, First: first}, "UpdatingInPlace", "%s", why))
}

// mayUpdate waits until a machine can be updated: everything is healthy, and the others can do without it. With a single machine there are
// no others, and an update may be what mends it.
func (s *state) mayUpdate(m *machine) opinion {
	if lacked := s.lackedByAll(); lacked.Name != "" {
		return wait(lacked.Reason, "%s, and no machine is updated before", lacked.Message)
	}
	for _, check := range []func() opinion{s.placed, s.waitForMatch, s.alarm} {
		if v := check(); v.decided {
			return v
		}
	}
	if text := s.ailing(); text != "" {
		return wait("MemberUnhealthy", "etcd member %s; no machine is updated meanwhile", text)
	}
	if len(s.machines) > 1 {
		if text := s.unready(); text != "" {
			return wait("UpdateStopped", "%s is to be updated in place, and waits: %s", m.Name, text)
		}
		if m.member != nil && !quorum.Has(markDown(s.voters, m.member.ID)) {
			return wait("CannotSpare", "%s is to be updated in place, and without its voter the quorum would be lost: %s", m.Name, s.strength())
		}
	}
	return s.prepareJoin()
}

// markDown returns voters with one that does not answer.
func markDown(voters []quorum.Voter, id string) []quorum.Voter {
	return append(quorum.Without(voters, id), quorum.Voter{ID: id})
}

// unready says of each machine why nothing may be updated beside it; empty: all are as healthy as can be.
func (s *state) unready() string {
	var texts []string
	for _, m := range s.machines {
		text := m.why
		switch {
		case m.standing != complete:
		case !m.Ready:
			text = "its node is not ready"
		case m.Gate != "":
			text = "readiness gate " + m.Gate + " is not passed"
		case m.isMarked():
			text = "it is to be replaced: " + m.Marked
		}
		if text != "" {
			texts = append(texts, m.Name+": "+text)
		}
	}
	return strings.Join(texts, "; ")
}

// isUpdating: an update in place is under way, and the machine stays until it is over, or is held meanwhile. What runs on it may stop at
// any moment and come back.
func (m Machine) isUpdating() bool {
	return m.Update.State == UpdateUnderway && !m.isReleased()
}

// updating is the machine that is updated in place; nil: none is.
func (s *state) updating() *machine {
	for _, m := range s.machines {
		if m.isUpdating() {
			return m
		}
	}
	return nil
}

// failedUpdates returns the machines whose update failed.
func (s *state) failedUpdates() []*machine {
	return s.those(func(m *machine) bool { return m.Update.State == UpdateFailed })
}

// failures says of each machine why its update failed.
func failures(of []*machine) string {
	var texts []string
	for _, m := range of {
		text := "the update of " + m.Name + " failed: " + m.Update.Message
		if m.Update.Changed && !m.isOutdated() {
			text += "; the node was changed, and what it was before is wanted again"
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// behind returns the machines that are outdated, whatever becomes of them.
func (s *state) behind() []*machine { return s.those(func(m *machine) bool { return m.isOutdated() }) }

// isReplaced: a machine is outdated, and another takes its place. Where others change machines in place, that goes for one that was made
// ahead and is held back: it has no node, and waits for them for ever.
func (s *state) isReplaced(m *machine) bool {
	switch s.Policy.InPlace {
	case InPlaceNever:
		return m.isOutdated()
	case InPlacePreferred:
		return m.isOutdated() && s.cannotChange(m) != ""
	}
	return s.Policy.InPlace == InPlaceExternal && m.isHeld() && m.isOutdated()
}

// isChangedInPlace: a machine is outdated, and becomes what is wanted without being replaced.
func (s *state) isChangedInPlace(m *machine) bool {
	return s.Policy.InPlace.Ours() && m.isOutdated() && s.cannotChange(m) == "" && !m.isUnanswered()
}

// cannotChange says what of an outdated machine cannot be changed in place; empty: all can.
func (s *state) cannotChange(m *machine) string {
	switch {
	case !m.isUp():
		return "it never came up"
	case m.needsReplacement():
		return m.NeedsReplacement
	case s.Policy.EtcdOnly:
		return "etcd alone runs on it"
	case s.Etcd.Operated():
		return "an operator keeps etcd on it"
	}
	return ""
}

// whyReplaced says in what a machine is outdated, and, where it could be changed in place, what of it cannot.
func (s *state) whyReplaced(m *machine) string {
	if why := s.cannotChange(m); s.Policy.InPlace == InPlacePreferred && why != "" {
		return m.Outdated + ", which cannot all be changed in place: " + why
	}
	return m.Outdated
}

// keepsMachine says why no rule replaces a machine; empty: one may.
func (s *state) keepsMachine() string {
	if s.Policy.InPlace == InPlaceOnly {
		return "stays: with the policy " + string(InPlaceOnly) + " no machine is replaced before a person deletes it"
	}
	return ""
}

// onlyByPerson adds to what is broken who replaces it, where no rule does.
func (s *state) onlyByPerson() string {
	if s.keepsMachine() == "" {
		return ""
	}
	return "; it " + s.keepsMachine()
}

// waitForUpdates names updates that a person, or somebody else, must see to.
func (s *state) waitForUpdates() opinion {
	if todo := s.those(s.isChangedInPlace); len(todo) > 0 {
		switch {
		case s.Group.UpdatesPaused:
			return wait("UpdatesPaused", "%s to be changed in place, and a person holds that", count(len(todo), "machine"))
		case s.Group.NoUpgrader != "":
			return wait("NoUpgraderImage", "cannot update %s in place: %s", count(len(todo), "machine"), s.Group.NoUpgrader)
		}
	}
	var cannot, unanswered, elsewhere []string
	for _, m := range s.behind() {
		switch why := s.cannotChange(m); {
		case s.Policy.InPlace == InPlaceExternal:
			elsewhere = append(elsewhere, m.Name+": "+m.Outdated)
		case why == "" && m.isUnanswered():
			unanswered = append(unanswered, m.Name+": "+m.Unanswered)
		case s.Policy.InPlace == InPlaceOnly && why != "":
			cannot = append(cannot, m.Name+": "+why)
		}
	}
	switch {
	case len(cannot) > 0:
		return wait("CannotUpdateInPlace", "%s; with the policy %s nothing is replaced: change it back, or delete the Machine",
			strings.Join(cannot, "; "), InPlaceOnly)
	case len(unanswered) > 0:
		return wait("UpdaterUnanswered", "it is not known what can be changed in place, and nothing is replaced before: %s",
			strings.Join(unanswered, "; "))
	case len(elsewhere) > 0:
		return wait("UpdatedElsewhere", "somebody else updates machines in place: %s", strings.Join(elsewhere, "; "))
	}
	return pass("no machine waits for somebody else to update it")
}
