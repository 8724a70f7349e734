package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/quorum"
)

// NoSpace is etcd's alarm of a member whose data have reached their quota. While it is active etcd takes no write that adds data.
const NoSpace = "NOSPACE"

const (
	// defragmentPause is how long a member that was defragmented is left alone: what its data take then, they need.
	defragmentPause = 5 * time.Minute
	// compactPause is how long a compaction has to show what it frees before the next one.
	compactPause = time.Minute
)

// relieveSpace ends the alarm NOSPACE without a person. Members give back what their data do not need, the leader last. Where that is
// not enough, what was overwritten is dropped. When all have space again, the alarm is ended. One step at a time.
func relieveSpace(of *state) opinion {
	s := filled{of}
	raised := slices.IndexFunc(s.Etcd.Members, func(m Member) bool { return slices.Contains(m.Alarms, NoSpace) })
	if raised < 0 {
		return pass("no member of etcd raises %s", NoSpace)
	}
	if !s.Cluster.Reachable {
		return pass("the API server does not answer") // the first machine comes up
	}
	if m := s.unmeasured(); m != nil {
		return pass("how much space the data of %s take is not known", m.label())
	}
	full := s.full()
	if m := s.sparse(full); m != nil {
		return s.defragment(m)
	}
	if len(full) == 0 {
		if m := s.mayBeFull(); m != nil {
			return pass("the data of %s take %s of %s, and whether it is well is not known", m.label(), size(m.Size), size(m.Quota))
		}
		return do(Step{Verb: Disarm}, "SpaceRelieved", "all members of etcd have space again, and %s raises %s",
			s.Etcd.Members[raised].label(), NoSpace)
	}
	m := full[0]
	if e := s.Etcd; e.CompactTo > e.Compacted && !s.Now.Before(e.CompactedAt.Add(compactPause)) {
		return do(Step{Verb: Compact, Revision: s.Etcd.CompactTo}, "NoSpace",
			"the data of %s take %s of %s: what was overwritten before revision %d is dropped", m.label(), size(m.Size), size(m.Quota),
			s.Etcd.CompactTo)
	}
	return pass("the data of %s take %s of %s, of which %s are in use: delete some, or raise etcd's quota-backend-bytes", m.label(),
		size(m.Size), size(m.Quota), size(m.InUse))
}

// filled is the state of a group whose etcd takes no writes that add data.
type filled struct{ *state }

// unmeasured is a member that answers, or raises the alarm and may live, and of which it is not known how much space its data take; nil:
// there is none.
func (s filled) unmeasured() *Member {
	for i := range s.Etcd.Members {
		m := &s.Etcd.Members[i]
		if (m.isSound() || m.mayLackSpace()) && m.Size <= 0 {
			return m
		}
	}
	return nil
}

// mayLackSpace: a member raises the alarm, and may live.
func (m *Member) mayLackSpace() bool {
	return slices.Contains(m.Alarms, NoSpace) && m.Health != Unhealthy
}

// isFull: the data of a member take nine tenths of their quota.
func (m *Member) isFull() bool { return m.Size/9 >= m.Quota/10 }

// mayBeFull is a member that raises the alarm and may live, and whose data take nine tenths of their quota; nil: there is none.
func (s filled) mayBeFull() *Member {
	for i := range s.Etcd.Members {
		if m := &s.Etcd.Members[i]; m.mayLackSpace() && m.isFull() {
			return m
		}
	}
	return nil
}

// full are the members that answer and whose data take nine tenths of their quota.
func (s filled) full() []*Member {
	var found []*Member
	for i := range s.Etcd.Members {
		if m := &s.Etcd.Members[i]; m.isSound() && m.isFull() {
			found = append(found, m)
		}
	}
	return found
}

// sparse is one of these members whose data may not need all the space that they take: the leader only where it is the last; nil: there is
// none.
func (s filled) sparse(members []*Member) *Member {
	var last *Member
	for _, m := range members {
		switch {
		case !s.isSparse(m):
		case !m.Leader:
			return m
		default:
			last = m
		}
	}
	return last
}

// isSparse: the data of a member do not need a fifth of the space that they take, and it was not defragmented a moment ago. Or it was not
// since the last compaction. What that freed etcd counts only after further writes, which it does not take.
func (s filled) isSparse(m *Member) bool {
	return m.InUse/4 <= m.Size/5 && !s.Now.Before(m.Defragmented.Add(defragmentPause)) || m.Defragmented.Before(s.Etcd.CompactedAt)
}

// defragment has one member give back what its data do not need. It does not answer meanwhile.
func (s filled) defragment(m *Member) opinion {
	why := fmt.Sprintf("the data of %s take %s of %s", m.label(), size(m.Size), size(m.Quota))
	// A voter whose machine is not known may not be counted on: Check does not count it.
	if !m.Learner && len(s.voters) > 1 && quorum.Spare(silent(s.lasting, s.orphans())) < 1 {
		return pass("%s: it cannot be defragmented, since the quorum needs its voter", why)
	}
	if v := s.handOver(m, "NoSpace", why); v.decided {
		return v
	}
	return do(Step{Verb: Defragment, Member: m.ID, Machine: m.Machine}, "NoSpace", "%s: it is defragmented", why)
}

// moments are when etcd may be compacted once more, and a member be defragmented.
func (s filled) moments(consider func(time.Time)) {
	if s.Etcd.CompactTo > s.Etcd.Compacted {
		consider(s.Etcd.CompactedAt.Add(compactPause))
	}
	for _, m := range s.Etcd.Members {
		if m.InUse/4 <= m.Size/5 {
			consider(m.Defragmented.Add(defragmentPause))
		}
	}
}

// size writes a number of bytes.
func size(bytes int64) string { return fmt.Sprintf("%d MiB", bytes>>20) }
