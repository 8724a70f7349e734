package stacked

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// Compare implements observe.DataKeeper: unless a test says otherwise, the data are the same.
func (w *world) Compare(context.Context, []etcd.Target, etcd.Survey) etcd.Comparison {
	w.mu.Lock()
	w.comparing = true
	w.mu.Unlock()
	time.Sleep(w.takes)
	defer w.locked()()
	w.comparing = false
	w.comparisons++
	if w.compared.Revision == 0 && w.compared.Why == "" {
		return etcd.Comparison{Revision: 1}
	}
	return w.compared
}

// finds lets the next comparisons find that, and forgets how many there were.
func (w *world) finds(found etcd.Comparison) {
	defer w.locked()()
	w.compared, w.comparisons = found, 0
}

// consistent is the condition EtcdDataConsistent, as text; empty: there is none.
func (w *world) consistent() string {
	c := conditions.Get(w.kcp(), controlplanev1.EtcdDataConsistentCondition)
	if c == nil {
		return ""
	}
	return strings.TrimSpace(string(c.Status) + " " + c.Reason + " " + c.Message)
}

// TestComparesData: the data of the voters are compared within half an hour after the start, every six hours, and when another member has
// come, where all is as wanted. Who differs is told, and at rest nothing is decided by it.
func TestComparesData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := grown(t, 3)
		w.r.Wakes = make(chan event.GenericEvent)
		t.Cleanup(func() { w.r.Forget(kcpKey) })
		check := func(when, want string, times int) {
			t.Helper()
			if got := w.consistent(); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
			if w.comparisons != times {
				t.Errorf("%s: compared %d times, want %d", when, w.comparisons, times)
			}
			if p := w.kcp().Status.Plan; p.Step != string(plan.Nothing) {
				t.Errorf("%s: it is decided by: %+v", when, p)
			}
		}
		w.finds(etcd.Comparison{Revision: 7})
		check("before the first", "", 0)
		w.drive(40 * time.Minute)
		check("the same", "True Consistent", 1)
		if got := metricsOf(t, "quorate_etcd_differing_members"); len(got) != 1 || got[0].GetGauge().GetValue() != 0 {
			t.Errorf("the metric is %v", got)
		}

		w.finds(etcd.Comparison{Revision: 8, Differ: w.members[1:2], Voters: 3})
		w.drive(5 * time.Hour)
		check("before six hours", "True Consistent", 0)
		w.drive(35 * time.Minute)
		const differs = "False DataDiffers * The data of member 2 on demo-cp-2 differ from those of most members at revision 8: " +
			"replace its machine"
		check("one differs", differs, 1)
		if got := metricsOf(t, "quorate_etcd_differing_members"); len(got) != 1 || got[0].GetGauge().GetValue() != 1 {
			t.Errorf("the metric is %v", got)
		}
		w.finds(etcd.Comparison{Why: "no answer"})
		w.drive(27 * time.Minute)
		check("it cannot be compared again", differs+"\n* The last comparison failed: no answer", 1)
		w.finds(etcd.Comparison{Revision: 8, Differ: w.members, Voters: 3})
		w.drive(6 * time.Minute)
		check("all differ", "False DataDiffers * The members 1 on demo-cp-1, 2 on demo-cp-2, 3 on demo-cp-3 have different data at revision 8, "+
			"and no majority has the same", 1)

		w.finds(etcd.Comparison{Revision: 9})
		w.mu.Lock()
		w.members[1].ID = 77 // it was replaced
		w.mu.Unlock()
		w.drive(6 * time.Minute)
		check("another member", "True Consistent", 1)
		w.drive(time.Hour)
		check("and no more", "True Consistent", 1)

		w.finds(etcd.Comparison{Why: "no answer"})
		w.drive(4*time.Hour + 58*time.Minute)
		check("it cannot be compared again", "True Consistent * The last comparison failed: no answer", 1)
		w.finds(etcd.Comparison{Revision: 10})
		w.drive(6 * time.Minute)
		check("soon after a comparison that failed", "True Consistent", 1)

		w.r.Forget(kcpKey) // as a process that has just started
		w.finds(etcd.Comparison{Revision: 9})
		w.drive(40 * time.Minute)
		check("after a restart", "True Consistent", 1)
	})
}

// TestComparesNewMembers: that another member has come is reason enough for the first comparison of a process.
func TestComparesNewMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := grown(t, 3)
		w.r.Wakes = make(chan event.GenericEvent)
		t.Cleanup(func() { w.r.Forget(kcpKey) })
		w.drive(time.Minute)
		if w.comparisons > 0 {
			t.Errorf("compared %d times in the first minute", w.comparisons)
		}
		w.mu.Lock()
		w.members[1].ID = 77 // it was replaced
		w.mu.Unlock()
		w.drive(6 * time.Minute)
		if w.comparisons != 1 {
			t.Errorf("another member has come, and they were compared %d times, want once", w.comparisons)
		}
	})
}

// TestComparesUndisturbed: the connections to members are not closed while their data are compared, though all is as wanted.
func TestComparesUndisturbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := grown(t, 3)
		w.r.Wakes = make(chan event.GenericEvent)
		t.Cleanup(func() { w.r.Forget(kcpKey) })
		w.takes = 12 * time.Minute
		w.drive(50 * time.Minute)
		if w.comparisons != 1 || w.disturbed > 0 {
			t.Errorf("compared %d times, want once; connections were closed %d times meanwhile", w.comparisons, w.disturbed)
		}
	})
}

// TestJoinsWaitForData: no machine is made while a member has other data than most, also after a restart, until they agree again.
func TestJoinsWaitForData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := grown(t, 3)
		w.r.Wakes = make(chan event.GenericEvent)
		t.Cleanup(func() { w.r.Forget(kcpKey) })
		w.finds(etcd.Comparison{Revision: 8, Differ: w.members[1:2], Voters: 3})
		w.drive(40 * time.Minute)
		w.scale(5)
		waits := func(when string, machines int) {
			t.Helper()
			p := w.kcp().Status.Plan
			if (p.Reason == "EtcdDataDiffers") != (machines == 3) || len(w.machines()) != machines {
				t.Errorf("%s: %+v, %d machines, want %d", when, p, len(w.machines()), machines)
			}
		}
		w.drive(time.Minute)
		waits("one differs", 3)
		if p := w.kcp().Status.Plan; !strings.Contains(p.Message, "quorate replace demo-cp-2") {
			t.Errorf("it does not say what to do: %+v", p)
		}
		w.r.Forget(kcpKey)
		w.finds(etcd.Comparison{Revision: 8, Differ: w.members[1:2], Voters: 3})
		w.settle()
		waits("a process has just started", 3)
		w.drive(time.Minute)
		waits("after a restart", 3)
		if w.comparisons != 1 {
			t.Errorf("it was compared %d times in the first minute, want once", w.comparisons)
		}
		w.finds(etcd.Comparison{Revision: 9})
		w.drive(35 * time.Minute)
		waits("they agree", 5)
	})
}

// TestComparesAtRest: while something is under way, or there is one voter, nothing is compared.
func TestComparesAtRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := grown(t, 1)
		w.r.Wakes = make(chan event.GenericEvent)
		t.Cleanup(func() { w.r.Forget(kcpKey) })
		kcp := w.kcp()
		conditions.Set(kcp, observe.Condition(controlplanev1.EtcdDataConsistentCondition, metav1.ConditionFalse,
			controlplanev1.EtcdDataDiffersReason, "of a time with more members"))
		if err := w.client.Status().Update(t.Context(), kcp); err != nil || w.consistent() == "" {
			t.Fatalf("the condition is not there: %v", err)
		}
		w.drive(time.Hour)
		if left := w.consistent(); left != "" {
			t.Errorf("of a single voter there is %s", left)
		}
		if w.comparisons > 0 {
			t.Errorf("a single voter was compared %d times", w.comparisons)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := grown(t, 3)
		w.r.Wakes = make(chan event.GenericEvent)
		t.Cleanup(func() { w.r.Forget(kcpKey) })
		w.mu.Lock()
		w.members[1].Health = plan.Unhealthy
		w.mu.Unlock()
		w.forgetEtcd()
		w.drive(70 * time.Minute)
		if w.comparisons > 0 {
			t.Errorf("members were compared %d times while one is ill", w.comparisons)
		}
	})
}
