package stacked

import (
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/etcd"
	"github.com/quorate/quorate/internal/plan"
)

// memory is what is kept of one control plane between turns. Turns of one
// control plane never overlap, so it needs no lock.
type memory struct {
	// cluster is the one that the control plane belongs to.
	cluster client.ObjectKey
	// since is since when each member is as it is.
	since memberTimes
	// survey is what etcd said last, when it had said so, what else was known when it was
	// asked, the step that this was to confirm, and whether nothing was under way.
	survey            etcd.Survey
	surveyed          time.Time
	around, confirmed string
	resting           bool
	// unanswered counts surveys in a row that nobody answered.
	unanswered int
	// inquiry is the survey that runs; nil: none does.
	inquiry *inquiry
	// objects and members tell when facts changed that nobody dates: what is wanted
	// and which Machines there are; which members there are and who leads.
	objects, members changes
	// slow are the facts that are read rarely.
	slow slowFacts
	// files are kubeadm's in the cluster.
	files filesBehind
	// expiries are when the certificates of the API servers expire.
	expiries expiries
	// begun is the name of a machine whose number was taken, and of which something,
	// or nothing, could be made; empty: none. Without it each failure would cost a number.
	begun string
	// left is the machine whose member was removed last: it need not be asked any more.
	left string
	// expected are own writes that the cache has not shown yet.
	expected []expectation
}

// filesBehind is what was said of kubeadm's files in the cluster, for which spec, and when.
type filesBehind struct {
	behind KubeadmBehind
	of     string
	read   time.Time
}

// memories are those of all control planes, by name.
type memories struct {
	mu   sync.Mutex
	kept map[client.ObjectKey]*memory
}

// of returns the memory of a control plane; an empty one when there is none.
func (m *memories) of(key client.ObjectKey) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[client.ObjectKey]*memory{}
	}
	if m.kept[key] == nil {
		m.kept[key] = &memory{}
	}
	return m.kept[key]
}

// forget drops the memory of a control plane and returns it; nil when there was none.
func (m *memories) forget(key client.ObjectKey) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	dropped := m.kept[key]
	delete(m.kept, key)
	return dropped
}

// memberTimes remembers since when each member is as it is.
type memberTimes struct {
	seen map[string]sighting
}

// sighting is how a member looked, and since when.
type sighting struct {
	learner, named bool
	health         plan.Health
	since          time.Time
}

// stamp writes into each member since when it is as it is. Members that are no
// longer in the list are forgotten: an ID that returns is new.
func (t *memberTimes) stamp(members []plan.Member, now time.Time) {
	seen := make(map[string]sighting, len(members))
	for i := range members {
		m := &members[i]
		s := sighting{learner: m.Learner, named: m.Name != "", health: m.Health, since: now}
		if old, ok := t.seen[m.ID]; ok && old.learner == s.learner && old.named == s.named && old.health == s.health {
			s.since = old.since
		}
		seen[m.ID] = s
		m.Since = s.since
	}
	t.seen = seen
}

// changes tells when something last changed, as it was seen.
type changes struct {
	seen string
	at   time.Time
}

// look compares with what was seen last. What is seen first has not changed.
func (c *changes) look(now string, at time.Time) {
	if c.seen != "" && c.seen != now {
		c.at = at
	}
	c.seen = now
}

// note remembers when the facts changed that nobody dates.
func (m *memory) note(s *scene) {
	o := s.observed
	objects := fmt.Sprint("generation ", s.kcp.Generation)
	for _, machine := range o.Machines {
		objects += " " + machine.Name
	}
	m.objects.look(objects, o.Now)
	if !o.Etcd.Known {
		return
	}
	members := "members"
	for _, member := range o.Etcd.Members {
		members += fmt.Sprint(" ", member.ID, member.Leader)
	}
	m.members.look(members, o.Now)
}

// newest returns the newest of the times at which facts became true, those on
// record and those that were only seen.
func (m *memory) newest(s *scene) time.Time {
	newest := s.newestFact()
	for _, at := range []time.Time{m.objects.at, m.members.at} {
		if at.After(newest) {
			newest = at
		}
	}
	return newest
}
