package up

import (
	"errors"
	"testing"

	"github.com/quorate/quorate/internal/cli/report"
)

func TestOnlyFailed(t *testing.T) {
	ready, waits, failed := report.Machine{}, report.Machine{Waiting: "kubeadm"}, report.Machine{Waiting: "x", Failed: true}
	for _, tt := range []struct {
		name     string
		machines []report.Machine
		want     bool
	}{
		{"none", nil, false},
		{"ready", []report.Machine{ready}, false},
		{"one waits", []report.Machine{failed, waits}, false},
		{"one failed", []report.Machine{ready, failed}, true},
	} {
		if got := onlyFailed(report.Cluster{ControlPlane: report.ControlPlane{Machines: tt.machines}}); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A failed machine ends the waiting, but not at once: the controller may be about to replace it.
func TestUpGivesUp(t *testing.T) {
	stuck := report.Cluster{ControlPlane: report.ControlPlane{Name: "cp", Machines: []report.Machine{{Waiting: "x", Failed: true}}}}
	w := &watcher{}
	if done, err := w.up(stuck); done || err != nil {
		t.Errorf("at first: %v %v", done, err)
	}
	w.stuck = w.stuck.Add(-stuckFor)
	if _, err := w.up(stuck); !errors.Is(err, errStuck) {
		t.Errorf("later: %v", err)
	}
	moving := stuck
	moving.ControlPlane.Machines = append(moving.ControlPlane.Machines, report.Machine{Waiting: "kubeadm"})
	if done, err := w.up(moving); done || err != nil || !w.stuck.IsZero() {
		t.Errorf("with a new machine: %v %v", done, err)
	}
	well := report.Cluster{ControlPlane: report.ControlPlane{Name: "cp", Current: true, Available: true, UpToDate: true}}
	if done, err := w.up(well); !done || err != nil {
		t.Errorf("all is well: %v %v", done, err)
	}
}

// Nothing comes of an inactive control plane until a person activates it; what it told of an older spec does not count.
func TestUpDoesNotWaitForAnInactiveControlPlane(t *testing.T) {
	inactive := report.Cluster{ControlPlane: report.ControlPlane{Name: "cp", Current: true,
		Next: report.Next{Step: "Wait", Reason: "Inactive"}}}
	if done, err := (&watcher{}).up(inactive); !done || err != nil {
		t.Errorf("%v %v", done, err)
	}
	for name, change := range map[string]func(*report.ControlPlane){
		"an older spec":  func(cp *report.ControlPlane) { cp.Current = false },
		"another reason": func(cp *report.ControlPlane) { cp.Next.Reason = "Joining" },
	} {
		c := inactive
		change(&c.ControlPlane)
		if done, err := (&watcher{}).up(c); done || err != nil {
			t.Errorf("%s: %v %v", name, done, err)
		}
	}
}
