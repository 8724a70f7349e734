package envtest

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/test/releases"
)

// TestPlanOfBirth plans the cluster of an example, of which an API server has nothing, and tells what is missing of incomplete ones.
func TestPlanOfBirth(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set: make unit builds what it names")
	}
	env, config := startPlanServer(t)
	c, err := client.New(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := releases.LabelContracts(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	program, kubeconfig := build(t, "quorate"), administrator(t, env)
	raw, err := os.ReadFile("../../examples/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	whole := string(raw)
	without := func(kind string) string {
		var kept []string
		for _, doc := range strings.Split(whole, "\n---\n") {
			if !strings.Contains(doc, "\nkind: "+kind+"\n") {
				kept = append(kept, doc)
			}
		}
		return strings.Join(kept, "\n---\n")
	}
	for _, test := range []struct {
		name, text string
		code       int
		says       []string
	}{
		{"whole", whole, 0, []string{"3 to add", "Create demo-cp-1", "3 machines, 3 voters, 1 may fail", "at the worst moment no voter may fail",
			"all is as wanted"}},
		{"no control plane", without("KubeadmControlPlane"), 1,
			[]string{"plan.yaml", "Cluster demo", "spec.controlPlaneRef is KubeadmControlPlane demo-cp, which is neither"}},
		{"no template", without("LocalMachineTemplate"), 1, []string{"plan.yaml", "KubeadmControlPlane demo-cp",
			"spec.machineTemplate.spec.infrastructureRef is LocalMachineTemplate demo-cp, which is neither"}},
		{"a kind that nobody knows", whole + "\n---\napiVersion: example.org/v1\nkind: Unheard\nmetadata: {name: of}\n", 1,
			[]string{"plan.yaml", "Unheard of", "does not know the kind"}},
		{"a value that is refused", strings.Replace(whole, "\n  replicas: 3\n", "\n  replicas: -1\n", 1), 1,
			[]string{"plan.yaml", "KubeadmControlPlane demo-cp", "replicas"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "plan.yaml")
			if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), program, "plan", "-f", file, "--kubeconfig", kubeconfig)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			code := 0
			var exit *exec.ExitError
			if err := cmd.Run(); errors.As(err, &exit) {
				code = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if code != test.code {
				t.Errorf("it ends with code %d, want %d", code, test.code)
			}
			for _, text := range test.says {
				if !strings.Contains(out.String(), text) {
					t.Errorf("it does not say %q", text)
				}
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}
