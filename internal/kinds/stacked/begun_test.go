package stacked

import (
	"context"
	"errors"
	"slices"
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestBegunWhileRollingOut: the process ends while the one machine more of a rollout is made.
// The next one finishes it, and leaves no infrastructure behind that belongs to no machine.
func TestBegunWhileRollingOut(t *testing.T) {
	w := grown(t, 3)
	w.change(upgrade)
	dead := errors.New("the process is dead")
	w.intercept(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object,
		options ...client.CreateOption) error {
		if _, last := o.(*bootstrapv1.KubeadmConfig); last {
			return dead
		}
		return c.Create(ctx, o, options...)
	}})
	var err error
	for range 10 {
		if _, err = w.r.Reconcile(context.Background(), ctrl.Request{NamespacedName: kcpKey}); err != nil {
			break
		}
	}
	if !errors.Is(err, dead) {
		t.Fatalf("the crash: %v", err)
	}
	w.use(w.client)
	if p := w.live(); p.Step != string(plan.Nothing) {
		t.Fatalf("the rollout ends with %+v", p)
	}
	if got := w.names(&infrav1.LocalMachineList{}); !slices.Equal(got, w.machineNames()) {
		t.Errorf("infrastructure %v, machines %v", got, w.machineNames())
	}
}
