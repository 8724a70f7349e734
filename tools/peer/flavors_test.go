package peer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRepository: clusterctl finds each flavor that a spec asks for; nothing of the examples' own names is left in it, and numbers have no
// quotes.
func TestRepository(t *testing.T) {
	folder := t.TempDir()
	if _, err := WriteRepository(folder, "../../examples"); err != nil {
		t.Fatal(err)
	}
	for _, flavor := range []string{"", "-kcp-md-taints", "-md-remediation", "-kcp-remediation", "-kcp-adoption", "-topology",
		"-topology-taints"} {
		raw, err := os.ReadFile(filepath.Join(folder, "infrastructure-quorate", "v0.1.0", "cluster-template"+flavor+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		text := string(raw)
		for _, word := range []string{"demo", "small", "v1.37.2", "namespace: default"} {
			if strings.Contains(text, word) {
				t.Errorf("%s has the example's %q left", flavor, word)
			}
		}
		if !strings.Contains(text, "replicas: ${CONTROL_PLANE_MACHINE_COUNT}\n") {
			t.Errorf("%s does not say how many machines the control plane has", flavor)
		}
		if taints := strings.Contains(text, "pre-existing-always-taint"); taints != strings.HasSuffix(flavor, "-taints") {
			t.Errorf("%s has taints: %t", flavor, taints)
		}
	}
	adoption, err := os.ReadFile(filepath.Join(folder, "infrastructure-quorate", "v0.1.0", "cluster-template-kcp-adoption.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(adoption), "controlPlaneRef:"); n != 1 {
		t.Errorf("%d Clusters of the flavor for adoption have a control plane, want the second only", n)
	}
}
