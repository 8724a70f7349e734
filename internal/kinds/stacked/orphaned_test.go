package stacked

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestDeletedWithoutMachines: a control plane is deleted with --cascade=orphan. Until the garbage
// collector has taken it off its Machines they look like those of one that goes with them.
func TestDeletedWithoutMachines(t *testing.T) {
	w := grown(t, 3)
	ctx := context.Background()
	kcp := w.kcp()
	kcp.Finalizers = append(kcp.Finalizers, metav1.FinalizerOrphanDependents)
	if err := w.client.Update(ctx, kcp); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Delete(ctx, kcp); err != nil {
		t.Fatal(err)
	}
	if got := w.settle(); got.Reason != "Orphaning" {
		t.Errorf("the plan is %+v, want to wait for the garbage collector", got)
	}
	stale := w.scene()
	for _, m := range w.machines() {
		if !m.DeletionTimestamp.IsZero() {
			t.Errorf("%s is being deleted", m.Name)
		}
		m.OwnerReferences = nil
		if err := w.client.Update(ctx, &m); err != nil {
			t.Fatal(err)
		}
	}
	err := stale.Do(ctx, plan.Step{Verb: plan.Delete, Machine: "demo-cp-1"})
	if !apierrors.IsConflict(err) || !w.machine("demo-cp-1").DeletionTimestamp.IsZero() {
		t.Errorf("a cache that is behind had a Machine deleted that was left to nobody: %v", err)
	}
}

// TestFinishAsksTheServer: an old cache that shows no machine does not let the control plane go. One that has lost its labels is left to
// the garbage collector, without the hook that nobody would take off any more.
func TestFinishAsksTheServer(t *testing.T) {
	w := grown(t, 1)
	ctx := context.Background()
	if err := w.client.Delete(ctx, w.kcp()); err != nil {
		t.Fatal(err)
	}
	w.cached(func(list client.ObjectList) {
		if machines, ok := list.(*clusterv1.MachineList); ok {
			machines.Items = nil
		}
	})
	w.isRefused(func() bool { return w.kcp() != nil })
	m := w.machine("demo-cp-1")
	if !machine.HasHook(m) {
		t.Fatal("the machine has no hook to begin with")
	}
	m.Labels = nil
	if err := w.client.Update(ctx, m); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := w.r.Reconcile(ctx, requestOfKCP); err != nil {
			t.Fatal(err)
		}
	}
	if w.kcp() != nil || machine.HasHook(w.machine("demo-cp-1")) {
		t.Errorf("the control plane is %v, and its machine, which has no labels, has the hook: %v", w.kcp(),
			machine.HasHook(w.machine("demo-cp-1")))
	}
}
