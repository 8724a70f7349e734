package report

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cli/screen"
)

// TestRecovery: the tree says from which backup a cluster can be recovered, and nothing where none is taken.
func TestRecovery(t *testing.T) {
	good := Recovery{Wanted: true, Name: "20261127t170312z-x7k2p", Age: 12*time.Minute + 10*time.Second, Current: true, Reason: "Verified",
		Message: "recoverable"}
	for want, r := range map[string]Recovery{
		"": {},
		"backup  recoverable from 20261127t170312z-x7k2p, taken 12 min ago, verified": good,
		"backup  no backup yet":                         {Wanted: true},
		"backup  no verified backup: the store is down": {Wanted: true, Reason: "StoreUnusable", Message: "the store is down"},
		"backup  recoverable from a, taken 3 h ago, verified; it is older than two intervals": {Wanted: true, Name: "a",
			Age: 3*time.Hour + 59*time.Minute, Reason: "Overdue", Message: "it is older than two intervals"},
	} {
		var got []string
		for _, l := range r.Lines() {
			got = append(got, l.String())
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if ago(119*time.Second) != "119 s" || ago(47*time.Hour) != "47 h" || ago(49*time.Hour) != "2 days" {
		t.Errorf("%s, %s, %s", ago(119*time.Second), ago(47*time.Hour), ago(49*time.Hour))
	}
	c := healthyCluster()
	c.ControlPlane.Recovery = good
	e := EtcdCluster{Name: "e", Recovery: good}
	for name, lines := range map[string][]screen.Line{"control plane": c.controlPlaneBranch(), "etcd cluster": e.branch()} {
		found := false
		for _, l := range lines {
			found = found || strings.HasPrefix(l.String(), "backup  recoverable")
		}
		if !found {
			t.Errorf("the %s tells of no backup", name)
		}
	}
}
