package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/core/version"
)

// All members of etcd keep data of one minor version, the lowest of theirs, and one of an older version can join only once that
// was lowered. etcd lowers it while a downgrade is enabled, when it knows the version of every member, and lets no member
// join meanwhile. When the downgrade is cancelled, the version stays only while a member of the older version is in the list, or one that
// has not started. So one that is to join is added as learner first; then the downgrade is cancelled, and it starts. Others follow as ever.

// minorText writes a minor version: 3.5.
func minorText(v version.Version) string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// wantedEtcd is the version of etcd that machines are made with; false: it is not known, or not ours to change.
func (s *state) wantedEtcd() (version.Version, bool) {
	v, err := version.Parse(s.Want.EtcdVersion)
	return v, err == nil
}

// dataVersion is the version of the data that a member keeps: where it does not tell, as 3.5 does not, its own; false: not known.
func (m *Member) dataVersion() (version.Version, bool) {
	if v, err := version.Parse(m.Storage); err == nil {
		return v, true
	}
	v, err := version.Parse(m.Version)
	return v, err == nil
}

// tooNew returns the voters that keep data of a newer minor version than one that joins could read, or of one that is not known.
func (s *state) tooNew() []*Member {
	want, known := s.wantedEtcd()
	var found []*Member
	for i := range s.Etcd.Members {
		m := &s.Etcd.Members[i]
		if data, ok := m.dataVersion(); known && !m.Learner && (!ok || version.CompareMinor(data, want) > 0) {
			found = append(found, m)
		}
	}
	return found
}

// tellTooNew names voters, with the versions of their data.
func tellTooNew(members []*Member) string {
	var texts []string
	for _, m := range members {
		text := m.label() + " keeps data of a version that is not known"
		if data, ok := m.dataVersion(); ok {
			text = m.label() + " keeps data of etcd " + minorText(data)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// cancelDowngrade ends a downgrade that has served, or that is not wanted: as long as one is enabled no member can join.
func cancelDowngrade(s *state) opinion {
	to, err := version.Parse(s.Etcd.Downgrade)
	want, known := s.wantedEtcd()
	switch {
	case err != nil:
		return pass("no downgrade of etcd is enabled")
	case !known:
		return pass("a downgrade of etcd to %s is enabled, and is not ours", minorText(to))
	case version.CompareMinor(want, to) != 0:
		return do(Step{Verb: CancelDowngrade}, "DowngradeUnwanted",
			"a downgrade of etcd to %s is enabled, and %s is wanted; no member can join meanwhile", minorText(to), minorText(want))
	}
	// Who does not answer is brought up to date by the others when it is back.
	newer := slices.DeleteFunc(s.tooNew(), func(m *Member) bool { return !m.isSound() })
	holds := s.holdsDown(to)
	switch {
	case holds == nil:
		return pass("a downgrade of etcd to %s is enabled, and no member of that version is in the list, which would hold the version there",
			minorText(to))
	case len(newer) > 0:
		return pass("a downgrade of etcd to %s is enabled, and %s", minorText(to), tellTooNew(newer))
	}
	return do(Step{Verb: CancelDowngrade}, "MemberWaits",
		"etcd is lowered to %s, and member %s keeps it there; it can start when the downgrade is cancelled", minorText(to), holds.label())
}

// holdsDown is a member that keeps etcd from going back to a newer version: of the older one, or about to start on a machine that stays.
func (s *state) holdsDown(to version.Version) *Member {
	for i := range s.Etcd.Members {
		m := &s.Etcd.Members[i]
		runs, err := version.Parse(m.Version)
		on := s.on(m.Machine)
		waits := m.Name == "" && on != nil && on.standing != leaving && !s.isAboutToGo(on)
		if waits || err == nil && version.CompareMinor(runs, to) <= 0 {
			return m
		}
	}
	return nil
}

// enableDowngrade has etcd lower the version of its data before a member of an older one joins.
func enableDowngrade(s *state) opinion {
	newer := s.tooNew()
	if len(newer) == 0 {
		return pass("no member keeps data of a newer version of etcd than is wanted")
	}
	want, _ := s.wantedEtcd()
	if why := s.cannotLower(newer, want); why != "" {
		return pass("%s, %s is wanted: %s", tellTooNew(newer), minorText(want), why)
	}
	return do(Step{Verb: EnableDowngrade, Version: minorText(want)}, "Downgrading",
		"%s, %s is wanted; a member of that can join when etcd has lowered it", tellTooNew(newer), minorText(want))
}

// cannotLower says why etcd is not asked to lower its version now; empty: it can be, all members are well, and none comes or goes.
func (s *state) cannotLower(newer []*Member, want version.Version) string {
	if s.Etcd.Downgrade != "" {
		return "a downgrade is enabled"
	}
	if why := holdsLowering(s); why != "" && s.staying() >= s.Want.Replicas {
		return why
	}
	for _, m := range newer {
		if data, _ := m.dataVersion(); version.CompareMinor(data, version.Version{Major: want.Major, Minor: want.Minor + 1}) != 0 {
			return "etcd goes back one minor version at a time"
		}
	}
	if len(newer) < len(s.voters) {
		return "the members keep data of different versions"
	}
	if len(s.learners) > 0 {
		return "member " + s.learners[0].label() + " is a learner"
	}
	if m := s.otherJoiner(); m != nil {
		return m.Name + " may still add a member, which cannot start while etcd is lowered; " + s.untilAdded(m)
	}
	if s.uneven() {
		return "an odd number of replicas must be wanted first"
	}
	for _, v := range []opinion{s.prepared(), s.waitForDeletions(), s.placed(), s.waitForMatch(), s.alarm()} {
		if v.decided {
			return v.decision.Message
		}
	}
	return s.ailing()
}

// holdsLowering says why etcd is not asked to lower its version for a rollout; empty: nothing holds the rollout.
func holdsLowering(s *state) string {
	switch {
	case s.isUnapproved():
		return "that is not approved"
	case s.Group.Window.isClosed():
		return "nothing may begin now"
	case s.heldByLimit(s.outdated()):
		return "maxReplacementsPerDay is reached"
	case gate{s}.holds():
		return "there is no backup yet"
	}
	return ""
}

// otherJoiner returns the machine that may longest add a learner of another version, or one that goes with its machine; nil: there is none.
// etcd starts no member while a downgrade is on, and such a learner does not end it. One on a machine that is wanted and stays does.
func (s *state) otherJoiner() *machine {
	var last *machine
	for _, m := range s.machines {
		other := m.isOutdated() || m.standing == leaving
		if other && m.member == nil && s.hasTimeToAdd(m) && (last == nil || s.addsUntil(m).After(s.addsUntil(last))) {
			last = m
		}
	}
	return last
}

// waitForDowngrade waits until etcd's data are of a version that a new member can read.
func (s *state) waitForDowngrade() opinion {
	newer := s.tooNew()
	if len(newer) == 0 {
		return pass("a new member can read etcd's data")
	}
	want, _ := s.wantedEtcd()
	text := "until it has lowered them"
	if s.Etcd.Downgrade == "" {
		text = s.cannotLower(newer, want)
	}
	return wait("Downgrading", "%s, and a new member would be of %s: %s", tellTooNew(newer), minorText(want), text)
}
