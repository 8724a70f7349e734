//go:build e2e

package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/local/artifacts"
)

// helmed: in a management cluster the provider that clusterctl installed is replaced by the Helm chart's. The machines of the cluster stay,
// and the chart's manager makes more.
func helmed(t *testing.T, e *environment) {
	e.up(t, "home", "--replicas", "1")
	e.up(t, "home", "--self-managed")
	before := e.nodes(t, "home")
	providers, err := artifacts.EnsureProviders(context.Background(), artifacts.Options{})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	e.quorate(t, "kubeconfig", "home", "--write", kubeconfig)
	run := func(program string, arguments ...string) {
		t.Helper()
		cmd := exec.Command(program, append(arguments, "--kubeconfig", kubeconfig)...)
		cmd.Env = append(os.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true", "HOME="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", filepath.Base(program), strings.Join(arguments, " "), err, out)
		}
	}
	c, _ := e.workload(t, "home")
	manager, err := c.AppsV1().Deployments(quorateNamespace).Get(context.Background(), quorateManager, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	repository, tag, _ := strings.Cut(manager.Spec.Template.Spec.Containers[0].Image, ":")
	run(providers.Clusterctl, "delete", "--control-plane", "quorate", "--bootstrap", "quorate")
	run(providers.Helm, "install", "quorate", "../../charts/quorate", "--namespace", quorateNamespace, "--wait", "--timeout", "5m",
		// What belongs to no namespace stays when a provider is deleted: the definitions as they are, the rest as the chart has it.
		"--take-ownership", "--set", "crds.install=false", "--set", "image.repository="+repository, "--set", "image.tag="+tag,
		"--set", "profiling=true") // the documents say how a profile is fetched
	e.sameNodes(t, "home", before)
	e.up(t, "home", "--replicas", "3")
	three := e.nodes(t, "home")
	e.nothingForbidden(t)
	documentedInPods(t, e, "home", kubeconfig)
	run(providers.Helm, "uninstall", "quorate", "--namespace", quorateNamespace, "--wait")
	e.up(t, "home", "--self-managed=false")
	e.sameNodes(t, "home", three)
	e.takeDown(t, "home")
}
