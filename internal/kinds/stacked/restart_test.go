package stacked

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/group/status"
)

// TestRestartTellsNothing: a manager that starts knows nothing yet, which is no news. When it
// still knows nothing after the grace period, it says so.
func TestRestartTellsNothing(t *testing.T) {
	w := grown(t, 3)
	w.view = workload.New(w.client, workload.Options{}).View(clusterKey) // nobody has asked for a connection yet
	w.use(w.client)
	w.turn()
	told1 := func() map[string]string {
		all := map[string]string{}
		for _, kind := range []string{"Available", "EtcdClusterHealthy", "ControlPlaneComponentsHealthy"} {
			all[kind] = told(w.kcp().Status.Conditions, kind)
		}
		for _, kind := range []string{"APIServerPodHealthy", "EtcdMemberHealthy", "NodeKubeadmLabelsAndTaintsSet"} {
			all[kind] = told(w.machine("demo-cp-1").Status.Conditions, kind)
		}
		return all
	}
	for kind, got := range told1() {
		if got[:4] != "True" {
			t.Errorf("%s is %s because the manager has started", kind, got)
		}
	}
	w.r.Memories.Of(kcpKey).Began = time.Now().Add(-status.Silence)
	w.turn()
	for kind, got := range told1() {
		if got[:4] == "True" {
			t.Errorf("%s is still %s after the grace period", kind, got)
		}
	}
}

// TestEtcdUnknownAtStart: the API server may be seen before etcd is.
func TestEtcdUnknownAtStart(t *testing.T) {
	s := fine()
	of(s.View).Status.Conditions = reported(s).Conditions(waiting, nil)
	s.AddEtcd(etcd.Survey{Why: "not asked yet"}, &observe.MemberTimes{}, s.Facts.Now)
	s.Memory.Began = s.Facts.Now
	for _, kind := range []string{"Available", "EtcdClusterHealthy"} {
		if got := told(reported(s).Conditions(waiting, nil), kind); got != "absent" {
			t.Errorf("%s is told anew: %s", kind, got)
		}
	}
	s.Memory.Began = s.Facts.Now.Add(-status.Silence)
	if got := told(reported(s).Conditions(waiting, nil), "EtcdClusterHealthy"); got != "Unknown InspectionFailed: not asked yet" {
		t.Errorf("after the grace period it is %s", got)
	}
}

// TestJustPromoted: in every healthy join there is a moment at which a new voter was not asked yet.
func TestJustPromoted(t *testing.T) {
	tests := []struct {
		name   string
		member etcd.Member
		since  time.Duration
		node   bool
		want   string
	}{
		{"not asked yet", etcd.Member{}, 5 * time.Second, true, "True Available: * 1 of 2 machines have all control plane components healthy"},
		{"asked before its Node is there", etcd.Member{Health: plan.Unhealthy}, 5 * time.Second, false,
			"True Available: * 1 of 2 machines have all control plane components healthy"},
		{"never answered", etcd.Member{}, time.Minute, true,
			"False NotAvailable: * 1 of 2 etcd voters healthy, 2 needed\n* 1 of 2 machines have all control plane components healthy"},
		{"it is proven to fail", etcd.Member{Health: plan.Unhealthy}, 5 * time.Second, true,
			"False NotAvailable: * 1 of 2 etcd voters healthy, 2 needed\n* 1 of 2 machines have all control plane components healthy"},
		{"a learner", etcd.Member{Learner: true, Health: plan.Unhealthy}, time.Minute, true,
			"True Available: * 1 of 2 machines have all control plane components healthy"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := fine()
			s.Machines = s.Machines[:2]
			s.Survey.Members = s.Survey.Members[:2]
			test.member.ID, test.member.Name = 2, "m2"
			s.Survey.Members[1] = test.member
			if !test.node {
				s.Inside.Nodes = append(s.Inside.Nodes[:1:1], s.Inside.Nodes[2:]...)
				s.Machines[1].Machine = made("m2 host=m2")
			}
			if test.node {
				s.Inside.Nodes[1].CreationTimestamp = metav1.NewTime(time.Now().Add(-test.since))
			}
			s = renewed(s)
			for i := range s.Facts.Etcd.Members {
				s.Facts.Etcd.Members[i].Since = s.Facts.Now.Add(-test.since)
			}
			if got := told(reported(s).Conditions(waiting, nil), "Available"); got != test.want {
				t.Errorf("Available is\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// TestDeprecatedConditions: the conditions of v1beta1 of a control plane follow those of v1beta2; what upstream's controller wrote last,
// and nobody keeps true any more, goes.
func TestDeprecatedConditions(t *testing.T) {
	w := grown(t, 1)
	ctx := context.Background()
	yes := func(kinds ...clusterv1.ConditionType) (all clusterv1.Conditions) {
		for _, kind := range kinds {
			all = append(all, clusterv1.Condition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		}
		return all
	}
	kcp, m := w.kcp(), w.machine("demo-cp-1")
	kcp.SetV1Beta1Conditions(yes(clusterv1.ReadyV1Beta1Condition, upstream.MachinesCreatedV1Beta1Condition, "Somebody"))
	m.SetV1Beta1Conditions(yes(clusterv1.ReadyV1Beta1Condition, upstream.MachineAPIServerPodHealthyV1Beta1Condition))
	for _, err := range []error{w.client.Status().Update(ctx, kcp), w.client.Status().Update(ctx, m)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.settle()
	kcp, m = w.kcp(), w.machine("demo-cp-1")
	if v1beta1conditions.Has(kcp, upstream.MachinesCreatedV1Beta1Condition) || !v1beta1conditions.Has(kcp, "Somebody") {
		t.Errorf("the control plane says %+v", kcp.GetV1Beta1Conditions())
	}
	if v1beta1conditions.Has(m, upstream.MachineAPIServerPodHealthyV1Beta1Condition) ||
		!v1beta1conditions.Has(m, clusterv1.ReadyV1Beta1Condition) {
		t.Errorf("the Machine says %+v", m.GetV1Beta1Conditions())
	}
}

// TestMadeAnewUnderItsName: what was kept of a control plane, or of its Cluster, is not believed of another of that name, although no turn
// came between the two.
func TestMadeAnewUnderItsName(t *testing.T) {
	for name, anew := range map[string]client.Object{"the control plane": testKCP(3), "the Cluster": testCluster()} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, 3)
			w.turn()
			before, forgotten := w.r.Memories.Of(kcpKey), w.forgotten
			if w.turn(); w.r.Memories.Of(kcpKey) != before || w.forgotten != forgotten {
				t.Fatal("what is kept is dropped without a reason")
			}
			key := client.ObjectKeyFromObject(anew)
			if err := w.client.Get(t.Context(), key, anew); err != nil {
				t.Fatal(err)
			}
			gone := anew.DeepCopyObject().(client.Object)
			gone.SetFinalizers(nil)
			if err := errors.Join(w.client.Update(t.Context(), gone), w.client.Delete(t.Context(), gone)); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
			anew.SetUID("another")
			anew.SetResourceVersion("")
			if err := w.client.Create(t.Context(), anew); err != nil {
				t.Fatal(err)
			}
			if _, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: kcpKey}); err != nil {
				t.Fatal(err)
			}
			if w.r.Memories.Of(kcpKey) == before || w.forgotten != forgotten+2 { // the connection to its API server, and those to its etcd
				t.Errorf("what was kept of the one before is believed; forgotten %d times", w.forgotten-forgotten)
			}
		})
	}
}
