package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// The data of a member that raises NOSPACE fill its quota. Of machines with a number that is divisible by five that cannot be measured; of
// others with an even one the data do not need the space, and of the rest only a compaction frees it.

// room is what the etcd and its controller know of space.
type room struct {
	// full are the members whose data fill their quota, and tell whether a defragmentation would give that back.
	full map[*member]bool
	// What the controller remembers: the last compaction, and when each member was defragmented.
	compacted    int64
	compactedAt  time.Time
	defragmented map[string]time.Time
	// disarmed is when it last ended an alarm, moved when it last moved the leader.
	disarmed, moved time.Time
}

// spacious is what happens about space.
type spacious struct{ *World }

// fill fills the quota of a host's member.
func (w spacious) fill(h *host) {
	if h.member == nil {
		return
	}
	if w.space.full == nil {
		w.space.full = map[*member]bool{}
	}
	w.space.full[h.member] = h.number%2 == 0
}

// isFull: the data of a member that raises the alarm fill its quota.
func (w spacious) isFull(m *member) bool {
	_, is := w.space.full[m]
	return is && m.running && w.lasts(Alarm, m.host.number)
}

// measure adds how much space the data of members take, while one raises NOSPACE, or a defragmentation is wanted.
func (w spacious) measure(o *plan.Observed) {
	tidier(w).add(o)
	full := slices.ContainsFunc(o.Etcd.Members, func(e plan.Member) bool { return slices.Contains(e.Alarms, "NOSPACE") })
	if !full && !tidier(w).isWanted() {
		return
	}
	if full {
		o.Etcd.CompactTo = int64(w.now.Add(-time.Minute).Sub(w.start) / time.Second)
		o.Etcd.Compacted, o.Etcd.CompactedAt = w.space.compacted, w.space.compactedAt
	}
	for i := range o.Etcd.Members {
		e := &o.Etcd.Members[i]
		m := w.memberByID(e.ID)
		if !m.running || !w.isAsked(m) || m.host.number%5 == 0 {
			continue
		}
		e.Size, e.InUse = tidier(w).size(m), 30<<20
		e.Quota, e.Defragmented = 100<<20, w.space.defragmented[m.id]
		if w.isFull(m) {
			e.Size, e.InUse = 95<<20, 94<<20 // etcd does not count what a compaction frees before further writes
			if m.host.number%2 == 0 {
				e.InUse = 30 << 20
			}
		}
	}
}

// maintain carries out a step about etcd's version or its space.
func (w spacious) maintain(s plan.Step) error {
	if s.Verb == plan.EnableDowngrade || s.Verb == plan.CancelDowngrade {
		return w.lower(s)
	}
	return w.do(s)
}

// do carries out a step about space.
func (w spacious) do(s plan.Step) error {
	if !w.hasLeader() {
		return errors.New("etcd has no leader")
	}
	switch s.Verb {
	case plan.Compact:
		w.space.compacted, w.space.compactedAt = s.Revision, w.now
		for m := range w.space.full {
			w.space.full[m] = true
		}
	case plan.Defragment:
		m := w.memberByID(s.Member)
		if m == nil || !m.running {
			return errors.New("the member does not answer")
		}
		if w.space.defragmented == nil {
			w.space.defragmented = map[string]time.Time{}
		}
		w.space.defragmented[m.id] = w.now
		if w.space.full[m] {
			delete(w.space.full, m)
		}
		tidier(w).defragmented(m)
	default:
		w.space.disarmed = w.now
		w.lasting = slices.DeleteFunc(w.lasting, func(l lasting) bool {
			h := w.number(l.n)
			return l.kind == Alarm && (h == nil || h.member == nil || !w.isFull(h.member))
		})
	}
	return nil
}

// judge holds a step about space against the truth.
func (w spacious) judge(s plan.Step, fresh bool) {
	if !fresh {
		return
	}
	switch s.Verb {
	case plan.Compact, plan.Disarm:
		w.judgeRelief(s)
	case plan.Defragment:
		switch m := w.memberByID(s.Member); {
		case m == nil:
		case !w.isAlarmed():
			tidier(w).judge(s, m)
		case !m.learner:
			w.judgeDefragment(s, m)
		}
	}
}

// judgeRelief: an alarm is active, and is ended when no member is full.
func (w spacious) judgeRelief(s plan.Step) {
	if !w.isAlarmed() {
		w.blame("%s, and no member raises an alarm", s)
	}
	full := func(m *member) bool { return w.isFull(m) && w.isAsked(m) }
	asked := tidier(w).isAsked(w.tidy.asked.Disarm)
	if s.Verb == plan.Disarm && slices.ContainsFunc(w.members, full) && !w.blinded && !asked {
		w.blame("%s, and a member has no space", s)
	}
}

// judgeDefragment: a full voter does not answer for a while.
func (w spacious) judgeDefragment(s plan.Step, m *member) {
	running, all := w.voters()
	asked := tidier(w).isAsked(w.tidy.asked.Defragment)
	switch {
	case !w.isFull(m) && (!asked || w.tidy.tight[m]):
		w.blame("%s, whose data do not fill the quota", s)
	case all > 1 && m == w.leader:
		w.blame("%s, which leads", s)
	case asked && running == all:
	case all > 1 && m.running && running-1 <= all/2:
		w.blame("%s, and %d of %d voters would answer meanwhile", s, running-1, all)
	}
}
