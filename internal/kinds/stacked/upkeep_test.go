package stacked

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestHookAgain: a hook that somebody took off is put on again, but not on who is leaving.
func TestHookAgain(t *testing.T) {
	w := grown(t, 3)
	w.annotated("demo-cp-1", machine.Hook, false)
	w.settle()
	if !machine.HasHook(w.machine("demo-cp-1")) {
		t.Error("the hook is not put on again")
	}
	if err := w.client.Delete(context.Background(), w.machine("demo-cp-2")); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	w.annotated("demo-cp-2", machine.Hook, false)
	w.settle()
	if machine.HasHook(w.machine("demo-cp-2")) {
		t.Error("the hook was put on a machine whose deletion has begun")
	}
}

// TestOlderOwner: machines of an older controller refer to the control plane by today's version.
func TestOlderOwner(t *testing.T) {
	w := grown(t, 1)
	m := w.machine("demo-cp-1")
	m.OwnerReferences[0].APIVersion = "controlplane.cluster.x-k8s.io/v1beta1"
	if err := w.client.Update(context.Background(), m); err != nil {
		t.Fatal(err)
	}
	w.settle()
	m = w.machine("demo-cp-1")
	if len(m.OwnerReferences) != 1 || m.OwnerReferences[0].APIVersion != controlplanev1.GroupVersion.String() ||
		!metav1.IsControlledBy(m, w.kcp()) {
		t.Errorf("its owners are %+v", m.OwnerReferences)
	}
	version := m.ResourceVersion
	w.turn()
	if got := w.machine("demo-cp-1").ResourceVersion; got != version {
		t.Error("it is written again")
	}
}

// TestTemplateIsOwned: the Cluster owns a template before a machine is made of it, so that a move
// takes it along.
func TestTemplateIsOwned(t *testing.T) {
	w := grown(t, 3)
	ctx := context.Background()
	other := &infrav1.LocalMachineTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}}
	if err := w.client.Create(ctx, other); err != nil {
		t.Fatal(err)
	}
	w.view.Nodes[0].Status.Conditions[0].Status = corev1.ConditionUnknown // which holds the rollout up
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) {
		kcp.Spec.MachineTemplate.Spec.InfrastructureRef.Name = "other"
	})
	w.forgetEtcd()
	if p := w.settle(); p.Step != string(plan.Wait) {
		t.Fatalf("decided %+v", p)
	}
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(other), other); err != nil {
		t.Fatal(err)
	}
	if got := owners(other); got != "Cluster/demo" {
		t.Errorf("its owners are %q", got)
	}
	version := other.ResourceVersion
	w.turn()
	if err := w.client.Get(ctx, client.ObjectKeyFromObject(other), other); err != nil || other.ResourceVersion != version {
		t.Errorf("it is written again: %v", err)
	}
}

// TestOrphanBeingDeleted: its hook would hold the machine, and the machine the adoption, for ever.
func TestOrphanBeingDeleted(t *testing.T) {
	w := grown(t, 3)
	ctx := context.Background()
	for _, m := range w.machines() {
		m.OwnerReferences = nil
		if err := w.client.Update(ctx, &m); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.client.Delete(ctx, w.machine("demo-cp-3")); err != nil {
		t.Fatal(err)
	}
	w.terminate("demo-cp-3")
	w.use(w.client)
	w.forgetEtcd()
	p := w.settle()
	m := w.machine("demo-cp-3")
	if machine.HasHook(m) || len(w.members) != 2 {
		t.Errorf("hook on: %t, members %v: %+v", machine.HasHook(m), w.members, p)
	}
	if _, noted := m.Annotations[controlplanev1.MemberRemovedAnnotation]; !noted {
		t.Error("nothing tells that its member was removed")
	}
	for _, name := range []string{"demo-cp-1", "demo-cp-2"} {
		if m := w.machine(name); !metav1.IsControlledBy(m, w.kcp()) || m.Labels[clusterv1.MachineControlPlaneNameLabel] == "" {
			t.Errorf("%s was not adopted", name)
		}
	}
}

// TestLeavingIsNoContradiction: what a machine was made of does not matter any more once it is being
// deleted.
func TestLeavingIsNoContradiction(t *testing.T) {
	m := made("m1 gone=held")
	m.Spec.ClusterName, m.Spec.Version = "demo", "v1.20.0"
	s := begin(testKCP(3), testCluster(), nil, nil, time.Now())
	if got, err := New().Unadoptable(context.Background(), s.Observer, m); got != "" || err != nil {
		t.Errorf("it leaves, and %s, %v", got, err)
	}
}
