package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// TestLeaseIsReleasedOnExit: a manager that is told to end leaves its lease without a holder, as a real API server has it.
func TestLeaseIsReleasedOnExit(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set")
	}
	upstream, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{
		CRDDirectoryPaths:     []string{"../../config/crd", filepath.Join(strings.TrimSpace(string(upstream)), "core", "config", "crd", "bases")},
		ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: 3 * time.Minute,
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	cfg, err := env.Start()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", kubeconfig)
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// holder is who has the lease; empty: nobody, or there is none.
	holder := func() string {
		var lease coordinationv1.Lease
		if err := c.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: leaseName}, &lease); err != nil {
			return ""
		}
		return ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	s := parse(t, "--leader-elect", "--leader-elect-namespace=default", "--health-addr=0", "--diagnostics-address=127.0.0.1:0",
		"--insecure-diagnostics")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, s) }()
	err = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return holder() != "", nil })
	cancel()
	if end := <-ended; end != nil || err != nil {
		t.Fatalf("the lease has the holder %q: %v; the manager ended: %v", holder(), err, end)
	}
	if percent := debug.SetGCPercent(100); os.Getenv("GOGC") == "" && percent != garbage {
		t.Errorf("garbage is collected at %d %%, want %d", percent, garbage)
	}
	if h := holder(); h != "" {
		t.Errorf("the manager ended, and %q has the lease still", h)
	}
}
