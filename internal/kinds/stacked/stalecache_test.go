package stacked

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/grouptest"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestStaleCache lets the cache lag behind the own creation of a Machine: no
// decision may be made before it is seen, and the name must not be made up again.
func TestStaleCache(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	w.provide()
	stale, tries := true, 0
	w.r.Client = interceptor.NewClient(w.client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			tries++
			return c.Create(ctx, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if err := c.List(ctx, list, options...); err != nil {
				return err
			}
			if machines, ok := list.(*clusterv1.MachineList); ok && stale {
				machines.Items = nil
			}
			return nil
		},
	})
	w.turn()
	if got := w.machineNames(); !slices.Equal(got, []string{"demo-cp-1"}) {
		t.Fatalf("machines are %v", got)
	}
	before := w.kcp().ResourceVersion
	tries = 0
	for range 3 {
		if wait := w.turn().RequeueAfter; wait <= 0 || wait > observe.CacheTimeout {
			t.Fatalf("looks again after %v, want within %v", wait, observe.CacheTimeout)
		}
	}
	// The cache takes its time; the API server says that the write stands.
	m := w.r.Memories.Of(kcpKey)
	for i := range m.Writes.Awaited {
		m.Writes.Awaited[i].Since = time.Now().Add(-2 * observe.CacheTimeout)
	}
	if w.turn(); len(m.Writes.Awaited) == 0 || w.kcp().ResourceVersion != before || tries != 0 {
		t.Errorf("decided on a cache that lags: expected %v, %d objects created", m.Writes.Awaited, tries)
	}
	stale = false
	w.turn()
	if len(m.Writes.Awaited) != 0 && w.kcp().ResourceVersion == before {
		t.Error("did not go on once the cache has shown the write")
	}
	if got := w.machineNames(); !slices.Equal(got, []string{"demo-cp-1"}) {
		t.Errorf("machines are %v", got)
	}
}

// TestStaleStatus: what was told in status is known, so that a cache that lags behind it stops nobody, and nothing is told twice.
func TestStaleStatus(t *testing.T) {
	w := grown(t, 1)
	w.change(func(kcp *controlplanev1.KubeadmControlPlane) { kcp.Spec.Replicas = ptr.To(int32(3)) })
	before, machine := w.kcp(), w.machine("demo-cp-1")
	conditions.Set(machine, metav1.Condition{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse, Reason: "Old"})
	if err := w.client.Status().Update(context.Background(), machine); err != nil {
		t.Fatal(err)
	}
	patches := 0
	w.intercept(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if kcp, ok := o.(*controlplanev1.KubeadmControlPlane); ok {
				before.DeepCopyInto(kcp)
				return nil
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			if machines, ok := list.(*clusterv1.MachineList); ok {
				for i := range machines.Items {
					if machines.Items[i].Name == machine.Name {
						machine.DeepCopyInto(&machines.Items[i])
					}
				}
			}
			return err
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption) error {
			patches++
			return grouptest.StatusPatch(ctx, c, sub, o, patch, options...)
		},
	})
	w.r.APIReader = w.client
	for range 10 {
		w.turn()
	}
	if len(w.machineNames()) != 3 || patches > 4 {
		t.Errorf("machines %v after %d writes of status: %+v", w.machineNames(), patches, w.kcp().Status.Plan)
	}
}

// TestUndoneWrite: what was created is gone before the cache ever showed it.
func TestUndoneWrite(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	m := &observe.Writes{}
	m.Expect(observe.Write{Machine: "demo-cp-1"})
	wait, err := m.Unseen(context.Background(), w.r.APIReader, w.kcp(), nil, time.Now())
	if err != nil || wait <= 0 {
		t.Fatalf("wait is %v, error %v: want to wait for the Machine at first", wait, err)
	}
	wait, err = m.Unseen(context.Background(), w.r.APIReader, w.kcp(), nil, time.Now().Add(2*observe.CacheTimeout))
	if err != nil || wait != 0 || len(m.Awaited) != 0 {
		t.Errorf("wait is %v, error %v, expected %v: want to give up what does not stand", wait, err, m.Awaited)
	}
	// The control plane itself is gone.
	if err := w.client.Delete(context.Background(), w.kcp()); err != nil {
		t.Fatal(err)
	}
	kcp := w.kcp()
	kcp.Finalizers = nil
	if err := w.client.Update(context.Background(), kcp); err != nil {
		t.Fatal(err)
	}
	m.Expect(observe.Write{Version: "99999"})
	wait, err = m.Unseen(context.Background(), w.r.APIReader, kcp, nil, time.Now().Add(2*observe.VersionTimeout))
	if err != nil || wait != 0 {
		t.Errorf("wait is %v, error %v for a control plane that is gone", wait, err)
	}
}
