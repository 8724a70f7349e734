package sim

import (
	"fmt"
	"math/rand"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What differs where a change of the spec is one of etcd's minor version. Versions are minor ones here, those of etcd 3.

const (
	// versionsSalt keeps what is drawn of versions apart from what else is drawn of a seed.
	versionsSalt = 0x35e6
	// newerSalt draws which of these groups use etcd 3.7 and 3.6 instead of 3.6 and 3.5: from 3.6 on each member reports the version of its
	// data.
	newerSalt = 0x36e7
	// versionTick is how often etcd looks at its members' versions, and dataTick how long after a change of the cluster's version a
	// member has brought its data to it.
	versionTick = 4 * time.Second
	dataTick    = 2 * time.Second
	// telling is the first version whose members tell of their data and of a downgrade.
	telling = 6
)

// drawVersions gives the specs of some groups of the kind EtcdCluster versions of etcd.
func (s *Setup) drawVersions(seed int64) {
	r := rand.New(rand.NewSource(seed ^ versionsSalt))
	if !s.EtcdOnly || r.Intn(2) == 0 {
		return
	}
	s.Minors = map[int]int{1: pick(r, 5, 6, 6), 2: pick(r, 5, 5, 6), 3: pick(r, 5, 6)}
	if rand.New(rand.NewSource(seed^newerSalt)).Intn(2) == 0 {
		for spec := range s.Minors {
			s.Minors[spec]++
		}
	}
	if !s.Sturdy {
		s.Luck.Blind = max(s.Luck.Blind, pick(r, 0, 25))
	}
	if r.Intn(2) == 0 {
		at := time.Duration(r.Intn(1200)) * time.Second
		s.Script = inOrder(append(s.Script, Event{At: at, Kind: Change, N: 2}, Event{At: at + time.Duration(r.Intn(300))*time.Second,
			Kind: Change, N: pick(r, 1, 3)})...)
	}
}

// minor is the version of etcd of a spec: one that has none given is as new as any.
func (s Setup) minor(spec int) int {
	switch given, ok := s.Minors[spec]; {
	case s.Minors == nil:
		return 0
	case ok:
		return given
	}
	newest := telling
	for _, minor := range s.Minors {
		newest = max(newest, minor)
	}
	return newest
}

// lowest is the version of the member with the oldest etcd; false: etcd does not know that of all.
func (w *World) lowest() (int, bool) {
	lowest := 0
	for _, m := range w.members {
		if !m.running {
			return 0, false
		}
		if lowest == 0 || m.runs() < lowest {
			lowest = m.runs()
		}
	}
	return lowest, w.hasLeader() && lowest > 0
}

// runs is the version of a member's etcd.
func (m *member) runs() int { return m.host.minor }

// nextVersion is what etcd makes its version, as server/etcdserver/version has it.
func (w *World) nextVersion() int {
	lowest, known := w.lowest()
	switch {
	case !known:
	case w.lowering == 0 && lowest > w.keeps, w.lowering == w.keeps-1 && lowest == w.keeps:
		if w.lowering > 0 {
			return w.lowering
		}
		return lowest
	}
	return w.keeps
}

// monitorVersions has etcd look at its members' versions, and the members bring their data to that of the cluster.
func (w *World) monitorVersions() {
	if w.setup.Minors == nil || !w.initialised {
		return
	}
	next := w.nextVersion()
	if w.ripe(&w.versionDue, next != w.keeps, versionTick) {
		w.tell("etcd is of version 3.%d now", next)
		w.keeps = next
	}
	for _, m := range w.members {
		if w.ripe(&m.dataDue, m.running && w.hasLeader() && m.data != w.keeps, dataTick) {
			m.data = w.keeps
		}
	}
}

// ripe reports whether something has been the case for so long; due is when it will have been.
func (w *World) ripe(due *time.Time, is bool, after time.Duration) bool {
	switch {
	case !is:
		*due = time.Time{}
	case due.IsZero():
		*due = w.now.Add(after)
	case w.hasPassed(*due):
		*due = time.Time{}
		return true
	}
	return false
}

// versionMoments are when versions may change by themselves.
func (w *World) versionMoments(at func(time.Time)) {
	at(w.versionDue)
	for _, m := range w.members {
		at(m.dataDue)
	}
}

// begins: etcd's version is that of its first member.
func (w *World) begins(m *member) {
	w.keeps, m.data, w.lowering = m.runs(), m.runs(), 0
}

// canRead: the etcd of a host is not older than the cluster is.
func (w *World) canRead(h *host) bool { return w.setup.Minors == nil || h.minor >= w.keeps }

// mayStart: etcd lets a new member start, and the leader's data can be read by it.
func (w *World) mayStart(h *host) bool {
	return w.setup.Minors == nil || w.canRead(h) && w.lowering == 0 && w.hasLeader() && w.leader.data <= h.minor
}

// addVersions adds what can be seen of versions.
func (w *World) addVersions(o *plan.Observed) {
	if w.setup.Minors == nil {
		return
	}
	o.Want.EtcdVersion = fmt.Sprintf("v3.%d.30", w.setup.minor(w.spec))
	for i := range o.Etcd.Members {
		e := &o.Etcd.Members[i]
		m := w.memberByID(e.ID)
		if !m.running || !w.isAsked(m) || m.name == "" {
			continue
		}
		e.Version = fmt.Sprintf("3.%d.30", m.runs())
		if m.runs() >= telling {
			e.Storage = fmt.Sprintf("3.%d.0", m.data)
			if w.lowering > 0 {
				o.Etcd.Downgrade = fmt.Sprintf("3.%d.0", w.lowering)
			}
		}
	}
}

// lower asks etcd to lower its version, or not any more.
func (w *World) lower(s plan.Step) error {
	if !w.hasLeader() {
		return fmt.Errorf("etcd has no leader")
	}
	if s.Verb == plan.CancelDowngrade {
		w.lowering = 0
		return nil
	}
	to := 0
	if _, err := fmt.Sscanf(s.Version, "3.%d", &to); err != nil {
		return fmt.Errorf("version %q: %w", s.Version, err)
	}
	switch {
	case w.lowering == to:
	case w.lowering > 0:
		return fmt.Errorf("etcdserver: cluster has a downgrade job in progress")
	case to != w.keeps-1:
		return fmt.Errorf("etcdserver: invalid downgrade target version")
	default:
		w.lowering = to
	}
	return nil
}

// judgeVersion holds what is done about versions, and who is made, against the truth.
func (w *World) judgeVersion(s plan.Step, fresh bool) {
	if w.setup.Minors == nil || !fresh {
		return
	}
	w.judgeOtherJoiners(s)
	want := w.setup.minor(w.spec)
	away := slices.ContainsFunc(w.members, func(m *member) bool { return !m.running || m.learner })
	waits := slices.ContainsFunc(w.members, func(m *member) bool { return m.name == "" || m.runs() < w.keeps+1 && m.runs() == w.lowering })
	switch {
	case s.Verb == plan.Create && !s.Init && w.newestData() > want:
		w.blame("%s would be of etcd 3.%d, and data are of 3.%d", s, want, w.newestData())
	case s.Verb == plan.EnableDowngrade && (away || want != w.keeps-1):
		w.blame("%s, while somebody is away or 3.%d is wanted and 3.%d there", s, want, w.keeps)
	case s.Verb == plan.CancelDowngrade && want == w.lowering && !waits:
		w.blame("%s, and nobody would hold etcd there", s)
	}
}

// judgeOtherJoiners: etcd is not lowered while a machine may add a learner that could not start then.
func (w *World) judgeOtherJoiners(s plan.Step) {
	if s.Verb == plan.EnableDowngrade && slices.ContainsFunc(w.hosts, w.mayAddOther) {
		w.blame("%s, and a machine may add a learner that etcd does not start meanwhile", s)
	}
}

// mayAddOther: a host of another version than is wanted, or one that goes, may be about to add a learner.
func (w *World) mayAddOther(h *host) bool {
	other := h.deleting || w.setup.minor(h.spec) != w.setup.minor(w.spec)
	return other && h.hidden.IsZero() && h.member == nil && w.mayYetVote(h)
}

// newestData is the newest version of the data that a voter keeps.
func (w *World) newestData() int {
	newest := 0
	for _, m := range w.members {
		if !m.learner {
			newest = max(newest, m.data)
		}
	}
	return newest
}
