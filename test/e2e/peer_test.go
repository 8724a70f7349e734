//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// peer runs Cluster API's own e2e specs (tools/peer) on the management plane. QUORATE_PEER_FOCUS chooses specs by a regular expression;
// what they write stays in the folder QUORATE_PEER_ARTIFACTS where that is set.
//
//quorate:shows kubernetes replaced older>newer
func peer(t *testing.T, e *environment) {
	e.quorate(t, "artifacts", "build", older, newer)
	// The management plane is there as long as a cluster is.
	e.up(t, "plane", "--replicas", "1", "--feature-gates", "MachineTaintPropagation=true")
	folder := os.Getenv("QUORATE_PEER_ARTIFACTS")
	if folder == "" {
		folder = t.TempDir()
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	e.quorate(t, "kubeconfig", "--management", "--write", kubeconfig)
	// Without a time of its own Ginkgo ends the specs after an hour.
	args := []string{"test", "-tags", "e2e", ".", "-count", "1", "-v", "-timeout", "180m", "-args", "-ginkgo.timeout=170m",
		"-ginkgo.show-node-events=false", "-ginkgo.no-color"}
	if focus := os.Getenv("QUORATE_PEER_FOCUS"); focus != "" {
		args = append(args, "-ginkgo.focus", focus)
	}
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Dir = "../../tools/peer"
	c.Env = append(os.Environ(), "QUORATE_PEER_KUBECONFIG="+kubeconfig, "QUORATE_PEER_ARTIFACTS="+folder, "QUORATE_PEER_ADDRESS="+
		e.address("0.1"),
		"QUORATE_PEER_VERSION="+newer, "QUORATE_PEER_FROM="+older)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	if err := c.Run(); err != nil {
		t.Errorf("Cluster API's e2e specs: %v", err)
	}
	e.takeDown(t, "plane")
}
