package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// connected is how long etcd wants every voter to have been connected before it
// takes a new member; election is how long it is without a leader after one is lost.
const (
	connected = 5 * time.Second
	election  = 2 * time.Second
)

// A member of the world's etcd.
type member struct {
	id      string
	host    *host
	name    string // empty until it has started once
	learner bool
	running bool
	hung    bool      // it stands still and does not answer, and its connections stay open
	since   time.Time // since when it runs, or does not
	halted  time.Time // when it last stopped or stood still
	back    time.Time // when it runs again by itself; zero: it is not a passing failure
	removed bool
	corrupt bool      // its data differ from those of the others
	differs bool      // the same, and it raises no alarm
	mute    time.Time // since when it cannot be asked
	// placeholder: nothing ever starts it.
	placeholder bool
	data        int       // the version of its data
	dataDue     time.Time // when it is another; zero: not now
	holds, term int       // which of the writes it has, and of which leader
	cluster     int       // of which it is
	excused     bool      // it may run beside the cluster that a seed began
}

// add puts a member into the list.
func (w *World) add(h *host, learner bool) *member {
	w.memberCount++
	m := &member{id: fmt.Sprintf("e%02d", w.memberCount), host: h, learner: learner, since: w.now, cluster: w.recoveries.cluster}
	w.members = append(w.members, m)
	return m
}

// addPlaceholder puts a learner into the list that nothing ever starts, if etcd takes one. It is an error that it does not, unless it has
// one.
func (w *World) addPlaceholder() error {
	if slices.ContainsFunc(w.members, func(m *member) bool { return m.placeholder }) {
		return nil
	}
	if !w.mayAdd(true) {
		return errors.New("etcdserver: too many learner members in cluster, or unhealthy cluster")
	}
	w.add(&host{name: "placeholder", dead: w.now}, true).placeholder = true
	return nil
}

// run starts the process of a member.
func (w *World) run(m *member) {
	if m.removed || !m.host.alive() {
		return
	}
	if !m.hung {
		m.since = w.now
	}
	m.name, m.running, m.hung, m.back = m.host.name, true, false, time.Time{}
}

func (w *World) stop(m *member) {
	if m.running || m.hung {
		m.running, m.hung, m.since, m.halted = false, false, w.now, w.now
	}
	m.back = time.Time{}
	delete(w.tidy.busy, m) // its process defragments no more
}

// hang lets the process of a member stand still. The other members do not notice: etcd
// sets no limit to how long a peer may be silent on an open connection.
func (w *World) hang(m *member) {
	if m.running {
		m.running, m.hung, m.halted = false, true, w.now
	}
}

// linked: the leader has been connected to a member for as long as etcd wants. A leader
// that has just started has not been connected to another for long.
func (w *World) linked(m *member) bool {
	if m == w.leader {
		return true
	}
	since := m.since
	if w.leader.since.After(since) {
		since = w.leader.since
	}
	return (m.running || m.hung) && m.name != "" && !w.now.Before(since.Add(connected))
}

// voters counts them: those that run, and all.
func (w *World) voters() (running, all int) {
	for _, m := range w.members {
		if m.learner {
			continue
		}
		all++
		if m.running {
			running++
		}
	}
	return running, all
}

// runningBut counts the voters but one that run.
func (w *World) runningBut(m *member) int {
	running, _ := w.voters()
	if m.running && !m.learner {
		running--
	}
	return running
}

func (w *World) hasQuorum() bool {
	running, all := w.voters()
	return running > all/2
}

func (w *World) hasLeader() bool { return w.leader != nil && w.hasQuorum() }

// depose takes the lead from a member that cannot lead any more.
func (w *World) depose() {
	if w.leader != nil && (!w.leader.running || w.leader.removed || !w.hasQuorum()) {
		w.leader, w.leaderless = nil, w.now
	}
}

// electable are those who may be elected.
func (w *World) electable() []*member {
	var able []*member
	for _, m := range w.members {
		if m.running && !m.learner && w.hasQuorum() {
			able = append(able, m)
		}
	}
	return able
}

// elect finds a leader when there is none, some time after the last was lost.
func (w *World) elect() {
	w.depose()
	if w.leader != nil || !w.hasQuorum() || w.now.Before(w.leaderless.Add(election)) && len(w.members) > 1 {
		return
	}
	able := w.electable()
	w.leader = able[w.rand.Intn(len(able))]
	w.recoveries.term++
}

// mayAdd is etcd's gate for a new member: it takes one learner at a time, and a voter beside it.
func (w *World) mayAdd(learner bool) bool {
	if !w.hasLeader() {
		return false
	}
	linked, all := 0, 0
	for _, m := range w.members {
		if m.learner && learner {
			return false
		}
		if m.learner {
			continue
		}
		all++
		if w.linked(m) {
			linked++
		}
	}
	if w.setup.Lenient && all > 1 {
		return linked > (all+1)/2
	}
	return linked == all
}

// mayPromote is etcd's gate for a learner that is to vote: it has started, and has the log.
func (w *World) mayPromote(m *member) bool {
	return !m.removed && m.name != "" && w.hasLeader()
}

// mayLead reports whether the lead can be moved to a member.
func (w *World) mayLead(m *member) error {
	if m == nil || m.learner || !m.running || !w.hasLeader() {
		return fmt.Errorf("etcdserver: not a healthy voter, or no leader")
	}
	return nil
}

// mayRemove is etcd's gate for a removal, as server/etcdserver has it.
func (w *World) mayRemove(m *member) error {
	if !w.hasLeader() {
		return fmt.Errorf("etcd has no leader")
	}
	if m.learner {
		return nil
	}
	others, started := w.startedBut(m)
	active, all := w.linkedVoters()
	switch {
	case others == 0 || started < others/2+1:
		return fmt.Errorf("etcdserver: re-configuration failed due to not enough started members")
	case !m.running && !m.hung:
		return nil
	case active-1 < 1+(all-1)/2:
		return fmt.Errorf("etcdserver: unhealthy cluster")
	}
	return nil
}

// startedBut counts the voters but one: all, and those that have started.
func (w *World) startedBut(m *member) (others, started int) {
	for _, x := range w.members {
		if x.learner || x == m {
			continue
		}
		others++
		if x.name != "" {
			started++
		}
	}
	return others, started
}

// linkedVoters counts the voters: those to which the leader is connected, and all.
func (w *World) linkedVoters() (linked, all int) {
	for _, x := range w.members {
		if x.learner {
			continue
		}
		all++
		if w.linked(x) {
			linked++
		}
	}
	return linked, all
}

// take removes a member from the list; its process ends with it.
func (w *World) take(m *member) {
	for i, x := range w.members {
		if x == m {
			w.members = append(w.members[:i:i], w.members[i+1:]...)
			break
		}
	}
	w.stop(m)
	m.removed = true
	if m.host.member == m && m.host.stage < up && m.host.alive() {
		m.host.stuck = true // kubeadm waits for a member that will never be
	}
	if w.leader == m {
		w.leader, w.leaderless = nil, w.now
	}
}

func (w *World) memberByID(id string) *member {
	for _, m := range w.members {
		if m.id == id {
			return m
		}
	}
	return nil
}
