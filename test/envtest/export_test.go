package envtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/test/releases"
)

// TestExport: what `quorate export` writes after the control plane object was lost is accepted by an API server and changes no machine;
// with a secret left out it is refused until somebody fills it in.
func TestExport(t *testing.T) {
	needAssets(t)
	env, config := startPlanServer(t)
	c, err := client.New(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := releases.LabelContracts(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	recorded, err := releases.Read("../releases/2026-11-23/kubeadm-configured-3.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := makePlanned(t.Context(), c, recorded.Objects, "lost"); err != nil {
		t.Fatal(err)
	}
	program, kubeconfig := build(t, "quorate"), administrator(t, env)
	export := func() string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, "export", "lost", "--kubeconfig", kubeconfig)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	kcp := &controlplanev1.KubeadmControlPlane{ObjectMeta: metav1.ObjectMeta{Namespace: "lost", Name: "lost-cp"}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(kcp), kcp); err != nil {
		t.Fatal(err)
	}
	text := export()
	file := filepath.Join(t.TempDir(), "control-plane.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), program, "plan", "lost", "-f", file, "--kubeconfig",
		kubeconfig).CombinedOutput(); err != nil {
		t.Errorf("planning it: %v\n%s\n%s", err, out, text)
	} else if plan := string(out); strings.Contains(plan, "Create ") || strings.Contains(plan, "Delete ") {
		t.Errorf("it would change machines:\n%s\n%s", plan, text)
	}
	before := kcp.DeepCopy()
	kcp.Finalizers = nil
	if err := c.Patch(t.Context(), kcp, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := c.Delete(t.Context(), kcp); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), object(t, export())); err != nil {
		t.Errorf("applying it: %v\n%s", err, text)
	}

	config3 := &bootstrapv1.KubeadmConfig{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "lost", Name: "lost-cp-3"}, config3); err != nil {
		t.Fatal(err)
	}
	was := config3.DeepCopy()
	config3.Spec.Users = []bootstrapv1.User{{Name: "admin", Passwd: "$6$hash"}}
	if err := c.Patch(t.Context(), config3, client.MergeFrom(was)); err != nil {
		t.Fatal(err)
	}
	withheld := object(t, export())
	withheld.SetName("other")
	wantRefusal(t, c.Create(t.Context(), withheld), "passwd")
}
