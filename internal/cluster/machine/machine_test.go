package machine

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// with returns a Machine, changed.
func with(change func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "demo-cp-1"}}
	change(m)
	return m
}

func TestHookDue(t *testing.T) {
	// waiting is a Machine of which nothing is left to do but our hook.
	waiting := func() *clusterv1.Machine {
		return with(func(m *clusterv1.Machine) {
			m.DeletionTimestamp = &metav1.Time{Time: now}
			m.Annotations = map[string]string{"pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup": ""}
			m.Status.Conditions = []metav1.Condition{{Type: "Deleting", Status: metav1.ConditionTrue, Reason: "WaitingForPreTerminateHook"}}
		})
	}
	tests := []struct {
		name      string
		change    func(*clusterv1.Machine)
		has, want bool
	}{
		{"waiting", func(*clusterv1.Machine) {}, true, true},
		{"not deleted", func(m *clusterv1.Machine) { m.DeletionTimestamp = nil }, true, false},
		{"no hook of ours", func(m *clusterv1.Machine) { m.Annotations = nil }, false, false},
		{"draining still", func(m *clusterv1.Machine) { m.Status.Conditions[0].Reason = "DrainingNode" }, true, false},
		{"not said to be deleting", func(m *clusterv1.Machine) { m.Status.Conditions[0].Status = metav1.ConditionFalse }, true, false},
		{"no condition yet", func(m *clusterv1.Machine) { m.Status.Conditions = nil }, true, false},
		{"another pre-terminate hook", func(m *clusterv1.Machine) {
			m.Annotations["pre-terminate.delete.hook.machine.cluster.x-k8s.io/backup"] = "them"
		}, true, false},
		{"another kind of hook", func(m *clusterv1.Machine) {
			m.Annotations["pre-drain.delete.hook.machine.cluster.x-k8s.io/backup"] = "them"
		}, true, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := waiting()
			test.change(m)
			if HookDue(m) != test.want || HasHook(m) != test.has {
				t.Errorf("due %t, want %t; has %t, want %t", HookDue(m), test.want, HasHook(m), test.has)
			}
		})
	}
}

func TestLabels(t *testing.T) {
	cp := map[string]string{"cluster.x-k8s.io/cluster-name": "demo", "cluster.x-k8s.io/control-plane": "", "other": "x"}
	worker := map[string]string{"cluster.x-k8s.io/cluster-name": "demo"}
	foreign := map[string]string{"cluster.x-k8s.io/cluster-name": "else", "cluster.x-k8s.io/control-plane": ""}
	selector := labels.SelectorFromSet(labels.Set(Labels("demo")))
	for i, want := range []bool{true, false, false} {
		set := []map[string]string{cp, worker, foreign}[i]
		if selector.Matches(labels.Set(set)) != want {
			t.Errorf("%v: selected %t", set, !want)
		}
	}
	if !IsControlPlane(with(func(m *clusterv1.Machine) { m.Labels = cp })) ||
		IsControlPlane(with(func(m *clusterv1.Machine) { m.Labels = worker })) {
		t.Error("a control plane is not told from a worker")
	}
}

func TestNodeAndAddress(t *testing.T) {
	empty := with(func(*clusterv1.Machine) {})
	if NodeName(empty) != "" || InternalIP(empty) != "" {
		t.Error("a new Machine has a Node or an address")
	}
	m := with(func(m *clusterv1.Machine) {
		m.Status.NodeRef.Name = "node-a"
		m.Status.Addresses = clusterv1.MachineAddresses{
			{Type: clusterv1.MachineHostName, Address: "host"}, {Type: clusterv1.MachineExternalIP, Address: "1.2.3.4"},
			{Type: clusterv1.MachineInternalIP, Address: "10.0.0.4"}, {Type: clusterv1.MachineInternalIP, Address: "fd00::4"},
		}
	})
	if NodeName(m) != "node-a" || InternalIP(m) != "10.0.0.4" {
		t.Errorf("got %q and %q", NodeName(m), InternalIP(m))
	}
}

func TestCompare(t *testing.T) {
	at := func(name string, age time.Duration) *clusterv1.Machine {
		return with(func(m *clusterv1.Machine) { m.Name, m.CreationTimestamp = name, metav1.NewTime(now.Add(-age)) })
	}
	machines := []*clusterv1.Machine{at("c", 1), at("d", time.Hour), at("a", time.Minute), at("b", time.Hour)}
	slices.SortFunc(machines, Compare)
	var names string
	for _, m := range machines {
		names += m.Name
	}
	if names != "bdac" {
		t.Errorf("got %s, want bdac", names)
	}
}
