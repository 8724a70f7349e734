package observe

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/group/grouptest"
)

func TestExpectationMet(t *testing.T) {
	object := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "100"}} // any object
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m1"}}
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
		e        Write
		machines []*clusterv1.Machine
		want     bool
	}{
		{"older control plane", Write{Version: "101"}, nil, false},
		{"that control plane", Write{Version: "100"}, nil, true},
		{"newer control plane, more digits compared as a number", Write{Version: "99"}, nil, true},
		{"created, not there yet", Write{Machine: "m1"}, nil, false},
		{"created", Write{Machine: "m1"}, []*clusterv1.Machine{m}, true},
		{"deleted, not seen yet", Write{Machine: "m1", UID: "u1", Deleted: true}, []*clusterv1.Machine{m}, false},
		{"deleted", Write{Machine: "m1", UID: "u1", Deleted: true}, []*clusterv1.Machine{going}, true},
		{"deleted and gone", Write{Machine: "m1", UID: "u1", Deleted: true}, nil, true},
		{"deleted, and another one has the name", Write{Machine: "m1", UID: "u1", Deleted: true}, []*clusterv1.Machine{other}, true},
		{"released, not seen yet", Write{Machine: "m1", UID: "u1", Released: true}, []*clusterv1.Machine{going}, false},
		{"released", Write{Machine: "m1", UID: "u1", Released: true}, []*clusterv1.Machine{released}, true},
		{"older conditions", Write{Machine: "m1", UID: "u1", Version: "51"}, []*clusterv1.Machine{m}, false},
		{"those conditions", Write{Machine: "m1", UID: "u1", Version: "50"}, []*clusterv1.Machine{m}, true},
		{"conditions of one that is gone", Write{Machine: "m1", UID: "u1", Version: "51"}, nil, true},
		{"versions that cannot be compared", Write{Version: "x"}, nil, true},
	}
	for _, test := range tests {
		if got := test.e.metBy(object, test.machines); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestExpectReplacesOnlyItsKind(t *testing.T) {
	m := &Writes{}
	m.Expect(Write{Version: "1"})
	m.Expect(Write{Version: "2"})
	m.Expect(Write{Machine: "m1", UID: "u", Version: "3"})
	m.Expect(Write{Machine: "m1", UID: "u", Deleted: true})
	if len(m.Awaited) != 3 || m.Awaited[0].Version != "2" {
		t.Errorf("expected is %+v", m.Awaited)
	}
}

// TestNewest: where the cache is older than an own write whose answer is known, a turn goes on with the answer, until the cache shows it or
// something newer, or the API server does not know of it any more. A write without an answer is waited for.
func TestNewest(t *testing.T) {
	of := func(name, version string, replicas int32) *controlplanev1.KubeadmControlPlane {
		object := grouptest.Object()
		object.Name, object.ResourceVersion, object.Spec.Replicas = name, version, &replicas
		return object
	}
	m := func(version string) *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "m1", UID: "u1", ResourceVersion: version}}
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(controlplanev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	later, soon := now.Add(2*VersionTimeout), now.Add(VersionTimeout/2)
	for _, test := range []struct {
		what           string
		wrote          bool
		cached, live   string // resource versions; empty: it is gone
		at             time.Time
		wait           bool
		object, member string // as the turn sees them
		left           int
	}{
		{"the cache is older", true, "9", "10", now, false, "10", "10", 2},
		{"it has shown the write", true, "10", "10", now, false, "10", "10", 0},
		{"it is newer", true, "11", "11", now, false, "11", "11", 0},
		{"it is older for a while, which is asked of nobody", true, "9", "9", soon, false, "10", "10", 2},
		{"it is older for long, and the write stands", true, "9", "11", later, false, "10", "10", 2},
		{"it is older for long, and the write was undone", true, "9", "9", later, false, "9", "9", 0},
		{"the answer is not known", false, "9", "10", now, true, "9", "9", 2},
		{"the answer is not known for a while, which is asked of nobody", false, "9", "9", soon, true, "9", "9", 2},
		{"the answer is not known for long, and the write stands", false, "9", "10", later, true, "9", "9", 2},
	} {
		var w Writes
		object, machine := of("demo-cp", "10", 3), m("10")
		w.Expect(Write{Version: "10", Since: now})
		w.Expect(Write{Machine: "m1", UID: "u1", Version: "10", Since: now})
		if test.wrote {
			w.Awaited[0].Wrote, w.Awaited[1].Wrote = object, machine
		}
		api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(of("demo-cp", test.live, 3), m(test.live)).Build()
		cached, machines := Object(of("demo-cp", test.cached, 1)), []*clusterv1.Machine{m(test.cached)}
		wait, err := w.Unseen(t.Context(), api, cached, machines, test.at)
		if err != nil || wait > 0 != test.wait {
			t.Errorf("%s: waits %s: %v", test.what, wait, err)
		}
		seen := w.Newest(cached, machines)
		if seen.GetResourceVersion() != test.object || machines[0].ResourceVersion != test.member || len(w.Awaited) != test.left {
			t.Errorf("%s: the turn sees %s and %s, want %s and %s; %d are awaited, want %d", test.what, seen.GetResourceVersion(),
				machines[0].ResourceVersion, test.object, test.member, len(w.Awaited), test.left)
		}
		another := of("demo-cp", "1", 1)
		another.UID = "another"
		if w.Newest(another, nil) != Object(another) {
			t.Errorf("%s: another object of the same name is taken for the one that was written", test.what)
		}
		if test.wrote && (seen == Object(object) || machines[0] == machine) {
			t.Errorf("%s: who takes a turn may change what was written", test.what)
		}
	}
}
