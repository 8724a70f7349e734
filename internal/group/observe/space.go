package observe

import (
	"slices"
	"time"

	"k8s.io/utils/ptr"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

const (
	// compactAge is how old a revision must be to which etcd is compacted: who reads what is older has to begin again.
	compactAge = time.Minute
	// revisionEvery is how far apart the revisions are that are kept for it.
	revisionEvery = 15 * time.Second
)

// Space is what is kept to tend etcd's members. What is lost is only done once more. The zero value is ready for use.
type Space struct {
	// revisions are those that etcd had, the oldest first.
	revisions []revisionAt
	// compacted is the last one to which it was compacted.
	compacted revisionAt
	// defragmented is when each member was, by its ID.
	defragmented map[uint64]time.Time
	// quota is that of members that do not tell theirs, as 3.5 does not: the most that one took as it raised the alarm. 0: none does.
	quota int64
	// disarmed is when an alarm was last ended, and leaderMoved when the leader was last moved.
	disarmed, leaderMoved time.Time
}

type revisionAt struct {
	revision int64
	at       time.Time
}

// Compacted notes that etcd was compacted.
func (s *Space) Compacted(revision int64, at time.Time) { s.compacted = revisionAt{revision, at} }

// Disarmed notes that an alarm was ended.
func (s *Space) Disarmed(at time.Time) { s.disarmed = at }

// LeaderMoved notes that another member leads.
func (s *Space) LeaderMoved(at time.Time) { s.leaderMoved = at }

// Defragmented notes that a member was.
func (s *Space) Defragmented(id uint64, at time.Time) {
	if s.defragmented == nil {
		s.defragmented = map[uint64]time.Time{}
	}
	s.defragmented[id] = at
}

// note keeps what a survey says that ended at a time.
func (s *Space) note(survey etcd.Survey, at time.Time) {
	newest, full := int64(0), int64(0)
	for _, m := range survey.Members {
		newest = max(newest, m.Revision)
		if slices.Contains(m.Alarms, plan.NoSpace) {
			full = max(full, m.Size)
		}
	}
	if s.quota = max(s.quota, full); full == 0 {
		s.quota = 0
	}
	last := revisionAt{}
	if n := len(s.revisions); n > 0 {
		last = s.revisions[n-1]
	}
	switch {
	case newest == 0 || !at.After(last.at):
		return
	case newest < last.revision: // another cluster
		s.revisions, s.compacted, s.defragmented = nil, revisionAt{}, nil
	case at.Sub(last.at) < revisionEvery:
		return
	}
	s.revisions = append(s.revisions, revisionAt{newest, at})
	if old := s.older(at); old > 0 {
		s.revisions = slices.Delete(s.revisions, 0, old)
	}
}

// older is the index of the newest revision that is old enough; -1: none is.
func (s *Space) older(now time.Time) int {
	found := -1
	for i, r := range s.revisions {
		if now.Sub(r.at) >= compactAge {
			found = i
		}
	}
	return found
}

// Defragmentation returns when members are defragmented although no alarm is active, with the defaults.
func Defragmentation(given controlplanev1.EtcdMaintenanceSpec) plan.Defragmentation {
	d := given.Defragment
	if d == nil {
		return plan.Defragmentation{}
	}
	wanted := plan.Defragmentation{FreePercent: int(ptr.Deref(d.FreePercent, controlplanev1.DefaultFreePercent)),
		MinSize: controlplanev1.DefaultMinSize, Single: d.OnlyMember == controlplanev1.OnlyMemberDefragment}
	if d.MinSize != nil {
		wanted.MinSize = d.MinSize.Value()
	}
	return wanted
}

// requestsOf are what a person asked to be done about etcd's members. What cannot be read asks for nothing: admission refused it.
func requestsOf(o *View) plan.Requests {
	if o.Object == nil {
		return plan.Requests{}
	}
	asked, _ := machine.ParseRequests(o.Object.GetAnnotations()[controlplanev1.EtcdRequestsAnnotation])
	return asked
}

// addRequests adds what a person asked to be done about etcd's members.
func addRequests(o *View, s *Space) {
	if !o.Facts.Etcd.Ours() {
		return
	}
	facts := &o.Facts.Etcd
	facts.Requests = requestsOf(o)
	if facts.Requests != (plan.Requests{}) {
		facts.Disarmed, facts.LeaderMoved = s.disarmed, s.leaderMoved
	}
}

// addSpace adds how full etcd is, while a member raises NOSPACE, or a defragmentation is wanted.
func addSpace(o *View, survey etcd.Survey, s *Space, now time.Time) {
	addRequests(o, s)
	facts := &o.Facts.Etcd
	full := slices.ContainsFunc(survey.Members, func(m etcd.Member) bool { return slices.Contains(m.Alarms, plan.NoSpace) })
	if !full && facts.Requests.Defragment.IsZero() && o.Facts.Policy.Defragment.FreePercent == 0 {
		return
	}
	if i := s.older(now); i >= 0 && full {
		facts.CompactTo = s.revisions[i].revision
	}
	if full {
		facts.Compacted, facts.CompactedAt = s.compacted.revision, s.compacted.at
	}
	for _, m := range survey.Members {
		for i := range facts.Members {
			if e := &facts.Members[i]; e.ID == etcd.FormatID(m.ID) {
				e.Size, e.InUse, e.Quota, e.Defragmented = m.Size, m.InUse, m.Quota, s.defragmented[m.ID]
				if e.Quota <= 0 {
					e.Quota = s.quota
				}
			}
		}
	}
}
