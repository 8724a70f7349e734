package report

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cli/screen"
)

func TestUpgradeLines(t *testing.T) {
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	u := Upgrade{
		Name: "demo-cp-1a2b", Of: "KubeadmControlPlane demo-cp", Version: "v1.36.3", Paused: true,
		Nodes: []UpgradedNode{
			{Name: "demo-cp-1-1a2b", Machine: "demo-cp-1", Completed: true, Created: start, Ended: at(24)},
			{Name: "demo-cp-2-1a2b", Machine: "demo-cp-2", Created: at(25), Reason: "Running", Steps: []UpgradeStep{
				{Name: "copy", Done: true, Since: at(27)}, {Name: "swap", Running: true, Since: at(28)}, {Name: "verify"},
			}},
			{Name: "demo-cp-3-1a2b", Machine: "demo-cp-3", Reason: "WaitingForImages", Message: "images are brought\nto the node"},
			{Name: "demo-cp-4-1a2b", Machine: "demo-cp-4", Failed: "swap", Reason: "RolledBack",
				Message: "kube-apiserver: unknown flag: --nonsense"},
			{Machine: "demo-cp-5"},
		},
	}
	done := Upgrade{Name: "one", Of: "Machine one-cp-1", Version: "v1.36.3",
		Nodes: []UpgradedNode{{Name: "one", Machine: "one-cp-1", Completed: true, Created: start, Ended: at(19)}}}
	var lines []screen.Line
	lines = append(lines, u.Lines(at(31))...)
	lines = append(lines, done.Lines(at(31))...)
	golden(t, "upgrade", text(lines))
}
