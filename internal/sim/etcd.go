package sim

import (
	"fmt"
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
	since   time.Time // since when it runs, or does not
	back    time.Time // when it runs again by itself; zero: it is not a passing failure
	removed bool
}

// add puts a member into the list.
func (w *World) add(h *host, learner bool) *member {
	w.memberCount++
	m := &member{id: fmt.Sprintf("e%02d", w.memberCount), host: h, learner: learner, since: w.now}
	w.members = append(w.members, m)
	return m
}

// run starts the process of a member.
func (w *World) run(m *member) {
	if m.removed || !m.host.alive() {
		return
	}
	m.name, m.running, m.since, m.back = m.host.name, true, w.now, time.Time{}
}

func (w *World) stop(m *member) {
	if m.running {
		m.running, m.since = false, w.now
	}
	m.back = time.Time{}
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

func (w *World) hasQuorum() bool {
	running, all := w.voters()
	return running > all/2
}

func (w *World) hasLeader() bool { return w.leader != nil && w.hasQuorum() }

// elect finds a leader when there is none, some time after the last was lost.
func (w *World) elect() {
	if w.leader != nil && w.leader.running && !w.leader.removed && w.hasQuorum() {
		return
	}
	if w.leader != nil {
		w.leader, w.leaderless = nil, w.now
	}
	if !w.hasQuorum() || w.now.Before(w.leaderless.Add(election)) && len(w.members) > 1 {
		return
	}
	var able []*member
	for _, m := range w.members {
		if m.running && !m.learner {
			able = append(able, m)
		}
	}
	w.leader = able[w.rand.Intn(len(able))]
}

// mayAdd is etcd's gate for a new member.
func (w *World) mayAdd() bool {
	if !w.hasLeader() {
		return false
	}
	for _, m := range w.members {
		if m.learner || !m.running || m.name == "" || w.now.Before(m.since.Add(connected)) && len(w.members) > 1 {
			return false
		}
	}
	return true
}

// mayRemove is etcd's gate for a removal, as server/etcdserver has it.
func (w *World) mayRemove(m *member) error {
	if !w.hasLeader() {
		return fmt.Errorf("etcd has no leader")
	}
	if m.learner {
		return nil
	}
	others, started, active, all := 0, 0, 0, 0
	for _, x := range w.members {
		if x.learner {
			continue
		}
		all++
		if x.running && !w.now.Before(x.since.Add(connected)) || x == w.leader {
			active++
		}
		if x != m {
			others++
			if x.name != "" {
				started++
			}
		}
	}
	switch {
	case others == 0 || started < others/2+1:
		return fmt.Errorf("etcdserver: re-configuration failed due to not enough started members")
	case !m.running:
		return nil
	case active-1 < 1+(all-1)/2:
		return fmt.Errorf("etcdserver: unhealthy cluster")
	}
	return nil
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
