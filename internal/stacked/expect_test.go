package stacked

import (
	"context"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/quorate/quorate/internal/machine"
)

func TestExpectationMet(t *testing.T) {
	kcp := testKCP(1)
	kcp.ResourceVersion = "100"
	m := made("m1")
	m.UID, m.ResourceVersion = "u1", "50"
	m.Annotations = map[string]string{machine.Hook: ""}
	going := m.DeepCopy()
	going.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	released := going.DeepCopy()
	released.Annotations = nil
	other := m.DeepCopy()
	other.UID = "u2"
	tests := []struct {
		name     string
		e        expectation
		machines []*clusterv1.Machine
		want     bool
	}{
		{"older control plane", expectation{version: "101"}, nil, false},
		{"that control plane", expectation{version: "100"}, nil, true},
		{"newer control plane, more digits compared as a number", expectation{version: "99"}, nil, true},
		{"created, not there yet", expectation{machine: "m1"}, nil, false},
		{"created", expectation{machine: "m1"}, []*clusterv1.Machine{m}, true},
		{"deleted, not seen yet", expectation{machine: "m1", uid: "u1", deleted: true}, []*clusterv1.Machine{m}, false},
		{"deleted", expectation{machine: "m1", uid: "u1", deleted: true}, []*clusterv1.Machine{going}, true},
		{"deleted and gone", expectation{machine: "m1", uid: "u1", deleted: true}, nil, true},
		{"deleted, and another one has the name", expectation{machine: "m1", uid: "u1", deleted: true}, []*clusterv1.Machine{other}, true},
		{"released, not seen yet", expectation{machine: "m1", uid: "u1", released: true}, []*clusterv1.Machine{going}, false},
		{"released", expectation{machine: "m1", uid: "u1", released: true}, []*clusterv1.Machine{released}, true},
		{"older conditions", expectation{machine: "m1", uid: "u1", version: "51"}, []*clusterv1.Machine{m}, false},
		{"those conditions", expectation{machine: "m1", uid: "u1", version: "50"}, []*clusterv1.Machine{m}, true},
		{"conditions of one that is gone", expectation{machine: "m1", uid: "u1", version: "51"}, nil, true},
		{"versions that cannot be compared", expectation{version: "x"}, nil, true},
	}
	for _, test := range tests {
		if got := test.e.metBy(kcp, test.machines); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestStaleCache lets the cache lag behind the own creation of a Machine: no
// decision may be made before it is seen, and the name must not be made up anew.
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
		if wait := w.turn().RequeueAfter; wait <= 0 || wait > patience {
			t.Fatalf("looks again after %v, want within %v", wait, patience)
		}
	}
	// The cache takes its time; the API server says that the write stands.
	m := w.r.memories.of(kcpKey)
	for i := range m.expected {
		m.expected[i].since = time.Now().Add(-2 * patience)
	}
	if w.turn(); len(m.expected) == 0 || w.kcp().ResourceVersion != before || tries != 0 {
		t.Errorf("decided on a cache that lags: expected %v, %d objects created", m.expected, tries)
	}
	stale = false
	w.turn()
	if len(m.expected) != 0 && w.kcp().ResourceVersion == before {
		t.Error("did not go on once the cache has shown the write")
	}
	if got := w.machineNames(); !slices.Equal(got, []string{"demo-cp-1"}) {
		t.Errorf("machines are %v", got)
	}
}

// TestUndoneWrite: what was created is gone before the cache ever showed it.
func TestUndoneWrite(t *testing.T) {
	w := newWorld(t, testCluster(), testKCP(1))
	m := &memory{}
	m.expect(expectation{machine: "demo-cp-1", since: time.Now()})
	wait, err := w.r.unseen(context.Background(), m, w.kcp(), nil, time.Now())
	if err != nil || wait <= 0 {
		t.Fatalf("wait is %v, error %v: want to wait for the Machine at first", wait, err)
	}
	wait, err = w.r.unseen(context.Background(), m, w.kcp(), nil, time.Now().Add(2*patience))
	if err != nil || wait != 0 || len(m.expected) != 0 {
		t.Errorf("wait is %v, error %v, expected %v: want to give up what does not stand", wait, err, m.expected)
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
	m.expect(expectation{version: "99999", since: time.Now()})
	wait, err = w.r.unseen(context.Background(), m, kcp, nil, time.Now().Add(2*patience))
	if err != nil || wait != 0 {
		t.Errorf("wait is %v, error %v for a control plane that is gone", wait, err)
	}
}

func TestExpectReplacesOnlyItsKind(t *testing.T) {
	m := &memory{}
	m.expect(expectation{version: "1"})
	m.expect(expectation{version: "2"})
	m.expect(expectation{machine: "m1", uid: "u", version: "3"})
	m.expect(expectation{machine: "m1", uid: "u", deleted: true})
	if len(m.expected) != 3 || m.expected[0].version != "2" {
		t.Errorf("expected is %+v", m.expected)
	}
}

func TestLastMachine(t *testing.T) {
	for text, want := range map[string]int{"": 0, "7": 7, "-1": 0, "seven": 0} {
		kcp := testKCP(1)
		kcp.Annotations = map[string]string{"controlplane.cluster.x-k8s.io/quorate-last-machine": text}
		if got := lastMachine(kcp); got != want {
			t.Errorf("%q is read as %d, want %d", text, got, want)
		}
	}
}
