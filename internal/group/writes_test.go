package group

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/machine"
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
