package stacked

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/group/observe"
)

// bootstrapped is an infrastructure machine whose bootstrap ended in that way.
func bootstrapped(status, reason string) *unstructured.Unstructured {
	return conditioned("BootstrapSucceeded", status, reason)
}

// conditioned is an infrastructure machine with one condition.
func conditioned(kind, status, reason string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": kind, "status": status, "reason": reason, "message": "x", "lastTransitionTime": "2026-01-02T03:04:05Z"},
	}}}}
}

func TestCannotJoin(t *testing.T) {
	removed := func(s *group.Turn, id string) {
		s.Inside.Pods = nil
		s.Machines[0].Annotations = map[string]string{controlplanev1.MemberRemovedAnnotation: id}
	}
	tests := []struct {
		name   string
		change func(*group.Turn)
		want   string
	}{
		{"nothing is known", func(s *group.Turn) { s.Inside.Pods = nil }, ""},
		{"its etcd was seen", func(*group.Turn) {}, "its etcd was started: there is pod etcd-m1"},
		{"and is not seen now", func(s *group.Turn) { s.Inside.Reachable = false }, "its etcd was started: there is pod etcd-m1"},
		{"its Node is gone", func(s *group.Turn) { s.Inside.Nodes = s.Inside.Nodes[1:] }, ""},
		{"a pod on an earlier Node of that name", func(s *group.Turn) {
			s.Inside.Pods[0].OwnerReferences = []metav1.OwnerReference{{Kind: "Node", Name: "m1", UID: "earlier"}}
		}, ""},
		{"its member was removed", func(s *group.Turn) { removed(s, "1"); s.Survey.Members = s.Survey.Members[1:] },
			"its etcd member 1 was removed"},
		{"its member was to be removed, and is still there", func(s *group.Turn) { removed(s, "1") }, ""},
		{"it was removed, and nobody tells", func(s *group.Turn) { removed(s, "1"); s.Survey.Members, s.Survey.Known = nil, false }, ""},
		{"it was removed, and the members disagree", func(s *group.Turn) {
			removed(s, "1")
			s.Survey.Members, s.Survey.Agreed = s.Survey.Members[1:], false
		}, ""},
		{"it was removed, and another came", func(s *group.Turn) { removed(s, "9") }, ""},
		{"a note that is none", func(s *group.Turn) { removed(s, "x y"); s.Survey.Members = s.Survey.Members[1:] }, ""},
		{"kubeadm failed", func(s *group.Turn) {
			s.Inside.Pods = nil
			s.Machines[0].Infrastructure = bootstrapped("False", "BootstrapFailed")
		}, "its bootstrap ended with an error, and is not tried again"},
		{"kubeadm runs", func(s *group.Turn) {
			s.Inside.Pods = nil
			s.Machines[0].Infrastructure = bootstrapped("False", "BootstrapRunning")
		}, ""},
		{"nothing is left of it", func(s *group.Turn) {
			s.Inside.Pods = nil
			s.Machines[0].Infrastructure = conditioned("Ready", "False", "Vanished")
		}, "nothing is left of it on its host"},
		{"it died, and may be started again", func(s *group.Turn) {
			s.Inside.Pods = nil
			s.Machines[0].Infrastructure = conditioned("Ready", "False", "Died")
		}, ""},
		{"it gets no bootstrap data", func(s *group.Turn) { s.Inside.Pods = nil; s.Machines[0].Withdrawn = true },
			"it is being deleted, had no bootstrap data, and gets none without its KubeadmConfig"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := renewed(fine())
			test.change(s)
			n := renewed(s)
			n.See(s.Inside)
			n.AddEtcd(s.Survey, &observe.MemberTimes{}, n.Facts.Now)
			if got := n.Facts.Machines[0].CannotJoin; got != test.want {
				t.Errorf("cannot join because %q, want %q", got, test.want)
			}
			if got := n.Facts.Machines[1].CannotJoin; got != "" && !strings.Contains(got, "etcd-m2") {
				t.Errorf("m2 cannot join because %q", got)
			}
		})
	}
}

// TestRemovalIsNotedFirst: a process that dies between the note and the removal leaves no proof
// of what has not happened; one that dies after it leaves the proof.
func TestRemovalIsNotedFirst(t *testing.T) {
	w := grown(t, 3)
	if err := w.client.Delete(context.Background(), w.machine("demo-cp-2")); err != nil {
		t.Fatal(err)
	}
	w.terminate("demo-cp-2")
	w.view.Pods = slices.DeleteFunc(w.view.Pods, func(p corev1.Pod) bool { return p.Name == "etcd-demo-cp-2" }) // it proves as much
	w.failChange = errors.New("the process died here")
	w.forgetEtcd()
	for range 3 {
		_, _ = w.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey})
	}
	if got := w.machine("demo-cp-2").Annotations[controlplanev1.MemberRemovedAnnotation]; got != "2" {
		t.Fatalf("before the removal %q is noted, want 2", got)
	}
	if got := w.scene().Facts.Machines[1].CannotJoin; got != "" {
		t.Errorf("its member is there, and it cannot join: %s", got)
	}
	w.failChange = nil
	w.use(w.client)
	w.forgetEtcd()
	if _, err := w.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey}); err != nil {
		t.Fatal(err)
	}
	if len(w.members) != 2 {
		t.Fatalf("members are %v: %+v", w.members, w.kcp().Status.Plan)
	}
	w.use(w.client)
	if got := w.scene().Facts.Machines[1].CannotJoin; got != "its etcd member 2 was removed" {
		t.Errorf("its member is gone, and it cannot join because %q", got)
	}
}

// TestRemovalOfAMachineThatChanges: what others write on a Machine that goes meanwhile holds up no removal of its member.
func TestRemovalOfAMachineThatChanges(t *testing.T) {
	w := grown(t, 3)
	if err := w.client.Delete(context.Background(), w.machine("demo-cp-2")); err != nil {
		t.Fatal(err)
	}
	w.terminate("demo-cp-2")
	w.forgetEtcd()
	w.intercept(interceptor.Funcs{Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch,
		opts ...client.PatchOption) error {
		if o.GetName() == "demo-cp-2" {
			m := &clusterv1.Machine{}
			if err := w.client.Get(ctx, client.ObjectKeyFromObject(o), m); err != nil {
				t.Error(err)
			}
			metav1.SetMetaDataAnnotation(&m.ObjectMeta, "theirs", m.ResourceVersion)
			if err := w.client.Update(ctx, m); err != nil {
				t.Error(err)
			}
		}
		return c.Patch(ctx, o, patch, opts...)
	}})
	for range 2 {
		w.turn()
	}
	m := w.machine("demo-cp-2")
	if len(w.members) != 2 || m.Annotations[controlplanev1.MemberRemovedAnnotation] != "2" || m.Annotations["theirs"] == "" {
		t.Errorf("members are %v, the Machine has %v; %+v", w.members, m.Annotations, w.kcp().Status.Plan)
	}
}

// TestBootstrapIsWithdrawn: a machine that is deleted before it has bootstrap data never joins.
func TestBootstrapIsWithdrawn(t *testing.T) {
	for name, data := range map[string]bool{"no data yet": false, "the data is there": true} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, 1)
			w.scale(3)
			w.settle()
			m := w.machine("demo-cp-2")
			m.Finalizers = []string{"machine.cluster.x-k8s.io"}
			if data {
				m.Spec.Bootstrap.DataSecretName = ptr.To("data")
			}
			if err := w.client.Update(context.Background(), m); err != nil {
				t.Fatal(err)
			}
			if err := w.client.Delete(context.Background(), m); err != nil {
				t.Fatal(err)
			}
			w.turn()
			err := w.client.Get(context.Background(), client.ObjectKeyFromObject(m), &bootstrapv1.KubeadmConfig{})
			if apierrors.IsNotFound(err) == data {
				t.Errorf("its KubeadmConfig: %v", err)
			}
			facts := w.scene().Facts.Machines
			at := 1
			if facts[1].Name != m.Name {
				at = 2
			}
			if got := facts[at].CannotJoin; (got == "") != data {
				t.Errorf("it cannot join because %q", got)
			}
			if err := w.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: "demo-cp-3"},
				&bootstrapv1.KubeadmConfig{}); err != nil {
				t.Errorf("that of the machine that stays: %v", err)
			}
		})
	}
}

// TestHiccupOfTheProvider: a running machine is no failed one because its provider was throttled.
func TestHiccupOfTheProvider(t *testing.T) {
	w := grown(t, 3)
	w.judged("demo-cp-2", metav1.Condition{Type: "InfrastructureReady", Status: metav1.ConditionFalse, Reason: "InstanceRefreshFailed",
		Message: "throttled"})
	if p := w.settle(); p.Step != string(plan.Nothing) {
		t.Errorf("decided %+v", p)
	}
}
