package upgrader

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestKubeletsServer: what runs in the pod asks the server that the node's kubelet asks, and what pods are told only where that is not known.
func TestKubeletsServer(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	file := filepath.Join(t.TempDir(), "kubelet.conf")
	for content, want := range map[string][]string{
		"clusters:\n- name: demo\n  cluster: {server: \"https://172.30.0.10:6443\"}\n": {"KUBERNETES_SERVICE_HOST=172.30.0.10", "KUBERNETES_SERVICE_PORT=6443"},
		"clusters:\n- cluster: {server: \"https://api.example.org\"}\n":                {"KUBERNETES_SERVICE_HOST=api.example.org", "KUBERNETES_SERVICE_PORT=443"},
		"clusters:\n- cluster: {server: \"https://[fd00::1]:6443\"}\n":                 {"KUBERNETES_SERVICE_HOST=fd00::1", "KUBERNETES_SERVICE_PORT=6443"},
		"clusters: []\n": {"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443"},
		"{":              {"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443"},
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := kubeletsServer(file); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", content, got, want)
		}
	}
	if got := kubeletsServer(filepath.Join(t.TempDir(), "none")); got[0] != "KUBERNETES_SERVICE_HOST=10.96.0.1" {
		t.Errorf("without a file: %v", got)
	}
}
