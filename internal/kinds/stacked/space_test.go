package stacked

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
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

// TestTendsEtcd: as a person asks, each member is defragmented once, the leader last and after a hand-over; and another member leads, once.
func TestTendsEtcd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := grown(t, 3)
		w.r.Wakes = make(chan event.GenericEvent)
		t.Cleanup(func() { w.r.Forget(kcpKey) })
		w.drive(11 * time.Minute)
		w.mu.Lock()
		for i := range w.members {
			m := &w.members[i]
			m.Size, m.InUse, m.Quota = 98<<20, 98<<20, 2<<30
		}
		w.mu.Unlock()
		w.drive(11 * time.Minute)
		w.mu.Lock()
		for i := range w.members {
			w.members[i].InUse = 90 << 20 // after the newest survey
		}
		w.mu.Unlock()
		if len(w.relieved) > 0 {
			t.Fatalf("nobody asked for it: %q", w.relieved)
		}
		asks := func(what string) {
			w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
				metav1.SetMetaDataAnnotation(&kcp.ObjectMeta, controlplanev1.EtcdRequestsAnnotation, what+"="+time.Now().UTC().Format(time.RFC3339))
			})
		}
		asks(controlplanev1.RequestDefragment)
		w.drive(2 * time.Minute) // sooner than etcd is asked without a request
		if said := strings.Join(w.relieved, ", "); len(slices.Compact(slices.Sorted(slices.Values(w.relieved)))) != 3 || len(w.relieved) != 3 ||
			strings.Contains(said, "which leads") {
			t.Errorf("done was: %s", said)
		}
		leads := func() string {
			defer w.locked()()
			i := slices.IndexFunc(w.members, func(m etcd.Member) bool { return m.Leader })
			return w.members[i].Name
		}
		for _, name := range []string{"demo-cp-1", "demo-cp-2"} {
			asks(controlplanev1.RequestMoveLeader + "/" + name)
			w.drive(time.Minute)
			if got := leads(); got != name {
				t.Errorf("%s leads, want %s: %+v", got, name, w.kcp().Status.Plan)
			}
		}
		w.mu.Lock()
		for i := range w.members {
			w.members[i].Leader = i == 2
		}
		w.mu.Unlock()
		w.forgetEtcd()
		w.drive(11 * time.Minute)
		if got := leads(); got != w.members[2].Name {
			t.Errorf("%s leads: the request was carried out twice", got)
		}
	})
}

// TestTendsEtcdBySpec: with spec.etcdMaintenance.defragment members whose data take much more than they need are defragmented at rest, the
// leader last and after a hand-over. The fields need no approval: no machine changes by them.
func TestTendsEtcdBySpec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := grown(t, 3)
		w.r.Wakes = make(chan event.GenericEvent)
		t.Cleanup(func() { w.r.Forget(kcpKey) })
		w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
			kcp.Spec.Approval.Policy = controlplanev1.ApprovalRequired
			kcp.Spec.EtcdMaintenance.Defragment = &controlplanev1.DefragmentSpec{}
		})
		w.drive(11 * time.Minute)
		w.mu.Lock()
		for i := range w.members {
			m := &w.members[i]
			m.Size, m.InUse, m.Quota = 200<<20, 110<<20, 2<<30
		}
		w.members[1].InUse++
		w.mu.Unlock()
		w.drive(11 * time.Minute)
		if said := strings.Join(w.relieved, ", "); len(w.relieved) != 2 || w.relieved[0] == w.relieved[1] ||
			strings.Contains(said, w.members[1].Name) || strings.Contains(said, "which leads") {
			t.Errorf("done was: %s: %+v", said, w.kcp().Status.Plan)
		}
	})
}
