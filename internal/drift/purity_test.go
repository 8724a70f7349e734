package drift

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestPure keeps clients, clocks, loggers and files out: only what is named here
// may be imported, types and text but for labels/format, which hashes a name.
func TestPure(t *testing.T) {
	allowed := strings.Fields(`
		bytes encoding/json fmt maps slices strconv strings time
		k8s.io/apimachinery/pkg/apis/meta/v1
		k8s.io/apimachinery/pkg/apis/meta/v1/unstructured
		k8s.io/apimachinery/pkg/runtime/schema
		sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2
		sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2
		sigs.k8s.io/cluster-api/api/core/v1beta2
		sigs.k8s.io/cluster-api/util/labels/format
		github.com/quorate/quorate/api/controlplane/v1beta2`)
	out, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".").Output()
	if err != nil {
		t.Fatalf("listing the imports: %v", err)
	}
	imports := strings.Fields(string(out))
	for _, p := range imports {
		if !slices.Contains(allowed, p) {
			t.Errorf("package drift may not import %s", p)
		}
	}
	for _, p := range allowed {
		if !slices.Contains(imports, p) {
			t.Errorf("%s is allowed and not imported", p)
		}
	}
}

// TestTimeless: package time is there for its types and its arithmetic only.
func TestTimeless(t *testing.T) {
	out, _ := exec.Command("grep", "-nE", `(time|metav1)\.(Now|Since|Until|After|Sleep|Tick|NewTimer|NewTicker)\(`, "-r", ".", "--include=*.go", "--exclude=*_test.go").Output()
	if len(out) > 0 {
		t.Errorf("a comparison knows no clock:\n%s", out)
	}
}
