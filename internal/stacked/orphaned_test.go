package stacked

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/plan"
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
