package group

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/group/record"
	"github.com/quorate/quorate/internal/group/status"
)

// past is how the turns of one group went, beside what they saw.
type past struct {
	// history is what was done to it.
	history record.Keeper
	// of are the UIDs of the group and its Cluster.
	of [2]types.UID
	// told is when, and how, statuses were written last.
	told Told
	// objects and members show when facts changed that carry no time: what is wanted
	// and which Machines there are; which members there are and who leads.
	objects, members Changes
	// waits is what the group waits for.
	waits status.Waiting
	// rollout and repair are what goes on, for the metrics.
	rollout, repair episode
	// stepped: the last turn that reported did a step.
	stepped bool
	// ended is when the last turn ended.
	ended time.Time
}

// kept is all that is kept of one group.
type kept struct {
	observe.Memory
	past past
}

// Memories are those of all groups of one kind. The zero value is ready for use.
type Memories struct {
	mu   sync.Mutex
	kept map[client.ObjectKey]*kept
	// moving are the groups in which something went on when they were looked at last.
	moving map[client.ObjectKey]bool
}

// Moves notes whether something goes on in a group.
func (m *Memories) Moves(key client.ObjectKey, is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !is {
		delete(m.moving, key)
		return
	}
	if m.moving == nil {
		m.moving = map[client.ObjectKey]bool{}
	}
	m.moving[key] = true
}

// Crowd is how many times as long a group waits before it is looked at for what is not watched: 1 while something goes on in few, and more
// where it does in many.
func (m *Memories) Crowd() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(min(1+len(m.moving)/crowd, crowdMost))
}

// Early returns how long a group's next turn waits for more news: changes of its objects come in bursts. Where something goes on in few
// groups, and after a step, it does not wait. The caller takes the turn.
func (m *Memories) Early(key client.ObjectKey, now time.Time) time.Duration {
	longest := gather * (m.Crowd() - 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.kept[key]
	if of == nil || of.past.stepped {
		return 0
	}
	return max(0, of.past.ended.Add(longest).Sub(now))
}

// Of returns the memory of a group; an empty one when there is none.
func (m *Memories) Of(key client.ObjectKey) *observe.Memory { return &m.all(key).Memory }

// all returns all that is kept of a group.
func (m *Memories) all(key client.ObjectKey) *kept {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[client.ObjectKey]*kept{}
	}
	if m.kept[key] == nil {
		m.kept[key] = &kept{Memory: observe.Memory{Began: time.Now()}}
	}
	return m.kept[key]
}

// forget drops the memory of a group and returns it; nil when there was none.
func (m *Memories) forget(key client.ObjectKey) *kept {
	m.mu.Lock()
	defer m.mu.Unlock()
	dropped := m.kept[key]
	delete(m.kept, key)
	delete(m.moving, key)
	return dropped
}

// note remembers when the facts changed that carry no time.
func (t *Turn) note() {
	o, m := t.Facts, t.past
	objects := fmt.Sprint("generation ", t.Object.GetGeneration())
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
func (t *Turn) newest() time.Time {
	newest := t.NewestFact(t.Object)
	for _, at := range []time.Time{t.past.objects.At, t.past.members.At} {
		if at.After(newest) {
			newest = at
		}
	}
	return newest
}
