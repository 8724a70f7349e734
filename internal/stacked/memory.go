package stacked

import (
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/group"
)

// memory is what is kept of one control plane between turns. Turns of one
// control plane never overlap, so it needs no lock.
type memory struct {
	// cluster is the one that the control plane belongs to.
	cluster client.ObjectKey
	// began is when the control plane was first looked at by this process.
	began time.Time
	// since is since when each member is as it is.
	since group.MemberTimes
	// surveys are what etcd said last, and what it is being asked.
	surveys group.Surveys
	// objects and members tell when facts changed that nobody dates: what is wanted
	// and which Machines there are; which members there are and who leads.
	objects, members group.Changes
	// slow are the facts that are read rarely.
	slow slowFacts
	// files are kubeadm's in the cluster.
	files filesBehind
	// expiries are when the certificates of the API servers expire.
	expiries group.Expiries
	// begun is the name of a machine whose number was taken, and of which something,
	// or nothing, could be made; empty: none. Without it each failure would cost a number.
	begun string
	// left is the machine whose member was removed last: it need not be asked any more.
	left string
	// writes are own ones that the cache has not shown yet.
	writes group.Writes
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
		m.kept[key] = &memory{began: time.Now()}
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

// note remembers when the facts changed that nobody dates.
func (m *memory) note(s *scene) {
	o := s.Facts
	objects := fmt.Sprint("generation ", s.kcp.Generation)
	for _, machine := range o.Machines {
		objects += " " + machine.Name
	}
	m.objects.Look(objects, o.Now)
	if !o.Etcd.Known {
		return
	}
	members := "members"
	for _, member := range o.Etcd.Members {
		members += fmt.Sprint(" ", member.ID, member.Leader)
	}
	m.members.Look(members, o.Now)
}

// newest returns the newest of the times at which facts became true, those on
// record and those that were only seen.
func (m *memory) newest(s *scene) time.Time {
	newest := s.NewestFact(s.kcp)
	for _, at := range []time.Time{m.objects.At, m.members.At} {
		if at.After(newest) {
			newest = at
		}
	}
	return newest
}
