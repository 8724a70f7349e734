package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/core/quorum"
)

// Requests are what a person asked to be done about the members of etcd. Each counts for an hour after its time, and not before. The zero
// value: nothing was asked.
type Requests struct {
	// Defragment is when a person asked that members give back the space that their data do not need.
	Defragment time.Time `json:"defragment,omitzero"`
	// Disarm is when a person asked that the alarm NOSPACE be ended.
	Disarm time.Time `json:"disarm,omitzero"`
	// MoveLeader is when a person asked that the member on the machine Lead lead.
	MoveLeader time.Time `json:"moveLeader,omitzero"`
	Lead       string    `json:"lead,omitempty"`
}

// Defragmentation is when members are defragmented although no alarm is active. The zero value: never.
type Defragmentation struct {
	// FreePercent is how much of what a member's data take they do not need at least, and MinSize how many bytes they take at least.
	FreePercent int   `json:"freePercent,omitempty"`
	MinSize     int64 `json:"minSize,omitempty"`
	// Single: a member that is the only one is defragmented too. Nothing answers meanwhile.
	Single bool `json:"single,omitempty"`
}

const (
	// requestLasts is how long after its time a request counts.
	requestLasts = time.Hour
	// memberRest is how long a member that was defragmented is left alone where no person asks for it.
	memberRest = time.Hour
	// leastFree is how many bytes a defragmentation that was asked for gives back at least.
	leastFree = 1 << 20
)

// BetweenMembers is how long no member is defragmented after another was: what that does to a machine shows by then.
const BetweenMembers = 30 * time.Second

// tending is the state of a group whose members are tended.
type tending struct{ *state }

// isAsked reports whether a request counts now. One of the time zero was never made, and is too old.
func (s tending) isAsked(at time.Time) bool {
	return !s.Now.Before(at) && s.Now.Before(at.Add(requestLasts))
}

// carryOutRequests does what a person asked for that may be needed while something is wrong: it moves the leader, and relieves etcd of
// NOSPACE where no rule may.
func carryOutRequests(of *state) opinion {
	s := tending{of}
	r := s.Etcd.Requests
	if !s.isAsked(r.MoveLeader) && !s.isAsked(r.Defragment) && !s.isAsked(r.Disarm) {
		return pass("no person asked for something")
	}
	lead := s.leadAsAsked()
	if lead.decided {
		return lead
	}
	space := s.relieveAsAsked()
	if !space.decided {
		return pass("%s; %s", lead.because, space.because)
	}
	return space
}

// leadAsAsked moves the leader to the member that a person named, once.
func (s tending) leadAsAsked() opinion {
	r := s.Etcd.Requests
	if !s.isAsked(r.MoveLeader) {
		return pass("no person asked for another leader")
	}
	on := s.on(r.Lead)
	switch {
	case !s.Etcd.LeaderMoved.Before(r.MoveLeader):
		return pass("the leader was moved since a person asked for it")
	case on == nil || on.member == nil:
		return pass("the leader is to be on %s, and no member is known on it", r.Lead)
	case on.member.Leader:
		return pass("%s leads already", on.member.label())
	case on.standing != complete:
		return pass("the leader is to be on %s, which is not well: %s", r.Lead, describe(on.health, on.why))
	case s.isReplaced(on) || s.isChangedInPlace(on) || on.isMarked() || on.isUpdating():
		return pass("the leader is to be on %s, which is to be replaced or changed", r.Lead)
	}
	return do(Step{Verb: MoveLeader, Member: on.member.ID, Machine: r.Lead}, "Requested", "a person asked that %s lead", on.member.label())
}

// relieveAsAsked defragments members under the alarm NOSPACE although the quorum needs each, and ends the alarm although members have no
// space, as a person asked.
func (s tending) relieveAsAsked() opinion {
	r := s.Etcd.Requests
	raised, stray := s.noSpace()
	switch {
	case !raised && !stray:
		return pass("no member raises %s", NoSpace)
	case !s.Cluster.Reachable:
		return pass("the API server does not answer")
	}
	if m := s.fragmented(s.isRequested); m != nil && raised && s.ailing() == "" {
		return s.giveBack(m, "Requested", s.need(m)+", and a person asked for it")
	}
	if s.isAsked(r.Disarm) && s.Etcd.Disarmed.Before(r.Disarm) {
		return do(Step{Verb: Disarm}, "Requested", "a person asked that %s be ended", NoSpace)
	}
	return pass("nothing that was asked is left to do about %s", NoSpace)
}

// noSpace reports whether a member raises NOSPACE, and whether one that is gone did.
func (s tending) noSpace() (raised, stray bool) {
	raises := func(m Member) bool { return slices.Contains(m.Alarms, NoSpace) }
	names := func(text string) bool { return strings.Contains(text, NoSpace) }
	return slices.ContainsFunc(s.Etcd.Members, raises), slices.ContainsFunc(s.Etcd.StrayAlarms, names)
}

// need says how much space a member's data take and need.
func (s tending) need(m *Member) string {
	return fmt.Sprintf("the data of %s take %s and need %s", m.label(), size(m.Size), size(m.InUse))
}

// tendEtcd defragments members when all else is done, one after the other.
func tendEtcd(of *state) opinion {
	s := tending{of}
	m, asked := s.fragmented(s.isRequested), true
	if m == nil {
		m, asked = s.fragmented(s.isLoose), false
	}
	if m == nil {
		return pass("no member is to be defragmented")
	}
	why := s.need(m)
	if not := s.notNow(asked); not != "" {
		return pass("%s: it is not defragmented now: %s", why, not)
	}
	if asked {
		return s.giveBack(m, "Requested", why+", and a person asked for it")
	}
	return s.giveBack(m, "Fragmented", why)
}

// giveBack has one member give back what its data do not need. A leader hands over before.
func (s tending) giveBack(m *Member, reason, why string) opinion {
	if v := s.handOver(m, reason, why); v.decided {
		return v
	}
	return do(Step{Verb: Defragment, Member: m.ID, Machine: m.Machine}, reason, "%s: it is defragmented", why)
}

// fragmented is a member of which something is true, and that is well: the leader only where it is the last; nil: there is none.
func (s tending) fragmented(is func(*Member) bool) *Member {
	var last *Member
	for i := range s.Etcd.Members {
		m := &s.Etcd.Members[i]
		switch {
		case !m.isSound() || !is(m):
		case !m.Leader:
			return m
		default:
			last = m
		}
	}
	return last
}

// isRequested: a person asked for a defragmentation, and the member has a twentieth and a megabyte to give back, and did not since.
func (s tending) isRequested(m *Member) bool {
	at := s.Etcd.Requests.Defragment
	return s.isAsked(at) && GivesBack(m.Size, m.InUse) && m.Defragmented.Before(at)
}

// GivesBack reports whether a defragmentation that a person asked for is worth it: data of so many bytes, of which so many are in use, give
// back a twentieth, and a megabyte.
func GivesBack(size, inUse int64) bool {
	free := size - inUse
	return free >= leastFree && free >= size/20
}

// isLoose: a member has as much to give back as the policy says, and its last defragmentation is long ago.
func (s tending) isLoose(m *Member) bool {
	limits := s.Policy.Defragment
	return limits.FreePercent > 0 && m.Size >= limits.MinSize && m.Size-m.InUse >= m.Size/100*int64(limits.FreePercent) &&
		!s.Now.Before(m.Defragmented.Add(memberRest))
}

// notNow says why no member is defragmented at rest now; empty: one is.
func (s tending) notNow(asked bool) string {
	if !asked {
		if why := s.unspared(); why != "" {
			return why
		}
	}
	if s.Now.Before(s.lastDefragmented().Add(BetweenMembers)) {
		return "another was defragmented a moment ago"
	}
	return s.restless()
}

// unspared says why no member is defragmented unless a person asks for it; empty: one may be.
func (s tending) unspared() string {
	switch {
	case s.Group.Window.isClosed():
		return s.Group.Window.whyClosed()
	case len(s.voters) == 1 && s.Policy.Defragment.Single:
		return ""
	case len(s.voters) == 1:
		return "it is the only member"
	case quorum.Spare(s.lasting) < 1:
		return "the quorum needs each voter"
	}
	return ""
}

// restless says what is wrong, so that no member is taken away for a while; empty: nothing is.
func (s tending) restless() string {
	if v := s.alarm(); v.decided {
		return v.decision.Message
	}
	if len(s.Etcd.StrayAlarms) > 0 {
		return s.Etcd.StrayAlarms[0]
	}
	if v := s.waitForMatch(); v.decided {
		return v.decision.Message
	}
	return s.unready()
}

// lastDefragmented is when any member was.
func (s tending) lastDefragmented() time.Time {
	var last time.Time
	for _, m := range s.Etcd.Members {
		last = latest(last, m.Defragmented)
	}
	return last
}

// moments are when a request begins or ends to count, and a member may be defragmented.
func (s tending) moments(consider func(time.Time)) {
	r := s.Etcd.Requests
	for _, at := range []time.Time{r.Defragment, r.Disarm, r.MoveLeader} {
		consider(at)
	}
	if s.fragmented(s.isRequested) != nil || s.fragmented(s.isLoose) != nil {
		consider(s.lastDefragmented().Add(BetweenMembers))
		consider(s.Group.Window.Opens)
	}
	for _, m := range s.Etcd.Members {
		if s.Policy.Defragment.FreePercent > 0 {
			consider(m.Defragmented.Add(memberRest))
		}
	}
}
