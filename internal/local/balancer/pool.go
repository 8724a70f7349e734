package balancer

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"
)

// DrainGrace is the longest that connections to a draining backend stay open once another can take them. They
// are closed earlier where the backend has answered answerIdle ago and nothing was asked since, or nothing was sent
// for drainIdle: a request that is under way is not cut off.
const DrainGrace = 4 * time.Second

const (
	drainIdle  = 500 * time.Millisecond
	answerIdle = 30 * time.Millisecond
	// deadAfter is how many probes in a row fail before existing connections are moved. One may fail because the
	// host is busy; new connections avoid the backend from the first on, which costs nothing.
	deadAfter = 3
)

// pool is the set of backends and of the connections to them.
type pool struct {
	mu      sync.Mutex
	members []*member
	// changed has an element when something happened that the status should tell or that may close connections.
	changed chan struct{}
}

// member is a backend in the pool. All of it but Backend, wake and stop is guarded by the pool's mutex.
type member struct {
	Backend
	removed bool
	// closing is since when its connections are being closed because it leaves; zero: they are not.
	closing time.Time
	health  Health
	since   time.Time
	fails   int
	why     string
	// owes is since when it owes an answer to a ping; zero: it does not. alive is when it was asked what it answered last.
	owes, alive time.Time
	// silent: it was found to say nothing, and has not been ready since.
	silent bool
	links  map[*link]struct{}
	wake   chan struct{}
	stop   func()
}

func newPool() *pool { return &pool{changed: make(chan struct{}, 1)} }

func (p *pool) notify() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

// configure makes the pool have these backends. Members are told apart by name, address and probe: one that stays keeps
// its health and its connections. start is called for each new one and returns what ends its probes.
func (p *pool) configure(backends []Backend, start func(*member) (stop func())) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer p.notify()
	for _, m := range p.members {
		m.removed = !slices.ContainsFunc(backends, m.is)
	}
	for _, b := range backends {
		i := slices.IndexFunc(p.members, func(m *member) bool { return m.is(b) })
		if i >= 0 {
			p.members[i].Draining = b.Draining
			continue
		}
		m := &member{Backend: b, health: Unknown, since: time.Now(), links: map[*link]struct{}{}, wake: make(chan struct{}, 1)}
		m.stop = start(m)
		p.members = append(p.members, m)
	}
	slices.SortFunc(p.members, func(a, b *member) int {
		if a.Name != b.Name {
			return compare(a.Name < b.Name)
		}
		return compare(a.Address < b.Address)
	})
}

func (m *member) is(b Backend) bool {
	return m.Name == b.Name && m.Address == b.Address && m.Probe == b.Probe
}

func compare(less bool) int {
	if less {
		return -1
	}
	return 1
}

// candidates are the backends in the order in which a new connection tries them: those that may have it first, each
// kind by the fewest connections. Those that look dead come last and are tried too: when all look dead, the
// answer of an API server that is not ready yet, or no longer, tells a client more than none.
func (p *pool) candidates() []*member {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(p.members), func(m *member) bool { return m.removed })
	slices.SortStableFunc(all, func(a, b *member) int {
		if d := a.rank() - b.rank(); d != 0 {
			return d
		}
		return len(a.links) - len(b.links)
	})
	return all
}

func (m *member) rank() int {
	switch {
	case m.health == Healthy && !m.Draining:
		return 0
	case m.health == Healthy:
		return 1
	case m.health == Unhealthy:
		return 3
	default:
		return 2
	}
}

// observe takes what a probe, or an attempt to connect, found.
func (p *pool) observe(m *member, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, why := m.health, m.why
	if err == nil {
		m.fails, m.health, m.why, m.owes, m.silent = 0, Healthy, "", time.Time{}, false
	} else if !m.silent {
		m.fails++
		m.health, m.why = Failing, err.Error()
		// Where nothing listens there is no doubt, and no connection that could be spared.
		if m.fails >= deadAfter || errors.Is(err, syscall.ECONNREFUSED) {
			m.health = Unhealthy
		}
	}
	if m.health != before {
		m.since = time.Now()
	}
	if m.health != before || m.why != why {
		p.notify()
	}
}

// suspect takes note that connecting to a member failed, and has it probed at once if that is news.
func (p *pool) suspect(m *member, err error) {
	if p.interval(m) != probeHealthy {
		return
	}
	p.observe(m, err)
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// add records an open connection. It returns false when the member has left meanwhile.
func (p *pool) add(m *member, l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.removed {
		return false
	}
	m.links[l] = struct{}{}
	return true
}

func (p *pool) remove(m *member, l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(m.links, l)
	if !m.closing.IsZero() {
		p.notify()
	}
}

// end closes all connections and takes no more.
func (p *pool) end() {
	p.configure(nil, nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.members {
		for l := range m.links {
			l.close()
		}
	}
}

// sweep returns the connections that have to go now, and lets members go that have left.
func (p *pool) sweep(now time.Time) []*link {
	p.mu.Lock()
	defer p.mu.Unlock()
	var doomed []*link
	for _, m := range p.members {
		if m.health != Unhealthy && p.isSilent(m, now) {
			m.health, m.since, m.silent = Unhealthy, now, true
			m.why = "it says nothing, neither to a ping nor on its connections, while another backend answers"
			p.notify()
		}
		doomed = append(doomed, p.doomed(m, now)...)
	}
	p.members = slices.DeleteFunc(p.members, func(m *member) bool {
		gone := m.removed && len(m.links) == 0
		if gone {
			m.stop()
		}
		return gone
	})
	return doomed
}

// doomed returns the connections of one member that have to go. As long as they have nowhere else to go they stay:
// a connection that may still work is worth more than none.
func (p *pool) doomed(m *member, now time.Time) []*link {
	all, leaving := m.ends(p.hasOther(m), now)
	if !all && !leaving {
		return nil
	}
	var doomed []*link
	for l := range m.links {
		if all || l.quiet() {
			doomed = append(doomed, l)
		}
	}
	return doomed
}

// hasOther reports whether there is another member to which connections of this one can go.
func (p *pool) hasOther(m *member) bool {
	return slices.ContainsFunc(p.members, func(o *member) bool {
		return o != m && o.health == Healthy && !o.Draining && !o.removed
	})
}

// ends reports whether all connections of a member have to go now, and whether those that are idle have, given whether
// there is another member for them.
func (m *member) ends(elsewhere bool, now time.Time) (all, leaving bool) {
	all = m.isLost(elsewhere)
	leaving = m.removed || m.Draining && elsewhere
	switch {
	case !leaving:
		m.closing = time.Time{}
	case m.closing.IsZero():
		m.closing = now
	default:
		all = all || now.Sub(m.closing) >= DrainGrace
	}
	return all, leaving
}

// isLost reports whether nothing is to be expected from a member's connections: it is unhealthy while there is another, or was removed
// and is not healthy.
func (m *member) isLost(elsewhere bool) bool {
	return m.health == Unhealthy && elsewhere || m.health != Healthy && m.removed
}

// isClosing reports whether connections are being closed because their member leaves.
func (p *pool) isClosing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.members, func(m *member) bool { return !m.closing.IsZero() && len(m.links) > 0 })
}

// status tells the state of all members, and whether connections are being closed.
func (p *pool) status() (all []BackendStatus, closing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.members {
		closing = closing || !m.closing.IsZero()
		all = append(all, BackendStatus{
			Name: m.Name, Address: m.Address, Health: m.health, Draining: m.Draining, Removed: m.removed,
			Connections: len(m.links), Since: m.since.UTC(), Why: m.why,
		})
	}
	return all, closing
}

// interval is how long to wait before the next probe. A backend that is not healthy is asked more often, since
// clients wait for it (kubeadm goes through the endpoint as soon as its own API server answers).
func (p *pool) interval(m *member) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.health == Healthy {
		return probeHealthy
	}
	return probeOthers
}
