package stacked

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

// Compact implements observe.Quorum: what it frees is not counted before further writes.
func (w *world) Compact(_ context.Context, _ []etcd.Target, revision int64) error {
	defer w.locked()()
	w.relieved = append(w.relieved, fmt.Sprintf("compact to %d", revision))
	w.compacted = true
	return nil
}

// Defragment implements observe.Quorum.
func (w *world) Defragment(_ context.Context, _ []etcd.Target, id uint64) error {
	defer w.locked()()
	for i := range w.members {
		m := &w.members[i]
		if m.ID != id {
			continue
		}
		if w.relieved = append(w.relieved, "defragment "+m.Name); m.Leader {
			w.relieved = append(w.relieved, "which leads")
		}
		if w.compacted {
			m.InUse = 10 << 20
		}
		m.Size = m.InUse
	}
	return nil
}

// Disarm implements observe.Quorum.
func (w *world) Disarm(context.Context, []etcd.Target) error {
	defer w.locked()()
	w.relieved = append(w.relieved, "disarm")
	for i := range w.members {
		w.members[i].Alarms = nil
	}
	return nil
}

// TestRelievesSpace: an etcd that takes no more data is compacted, defragmented member by member, the leader last, and takes data again,
// without a person. The revision is one of a minute ago.
func TestRelievesSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := grown(t, 3)
		w.r.Wakes = make(chan event.GenericEvent)
		t.Cleanup(func() { w.r.Forget(kcpKey) })
		w.mu.Lock()
		for i := range w.members {
			w.members[i].Revision = 700
		}
		w.mu.Unlock()
		w.drive(time.Minute)
		w.forgetEtcd()
		w.drive(11 * time.Minute)

		began := time.Now()
		w.mu.Lock()
		for i := range w.members {
			m := &w.members[i]
			m.Revision, m.Size, m.InUse, m.Quota = 900, 98<<20, 97<<20, 100<<20
		}
		w.members[1].Alarms = []string{"NOSPACE"}
		w.mu.Unlock()
		w.drive(35 * time.Second)
		if p := w.kcp().Status.Plan; p.Reason != "AsWanted" {
			t.Errorf("after %s: %+v", time.Since(began), p)
		}
		said := strings.Join(w.relieved, ", ")
		if len(w.relieved) != 5 || w.relieved[0] != "compact to 700" || w.relieved[4] != "disarm" || strings.Contains(said, "which leads") ||
			len(slices.Compact(slices.Sorted(slices.Values(w.relieved)))) != 5 {
			t.Errorf("it was relieved by: %s", said)
		}
	})
}
