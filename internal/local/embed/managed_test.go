package embed

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// TestManagementCluster: commands ask the management plane until all Clusters were moved, and the daemon is replaced when it is to make
// machines for another one.
func TestManagementCluster(t *testing.T) {
	state := t.TempDir()
	if err := os.Mkdir(filepath.Join(state, "management"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (Environment{Network: netip.MustParsePrefix("172.30.0.0/16")}).Save(state); err != nil {
		t.Fatal(err)
	}
	plane, cluster := filepath.Join(state, "management", "kubeconfig"), filepath.Join(state, "management", clusterKubeconfig)
	for _, step := range []struct {
		kept     *ManagementCluster
		asked    string
		machines string
		stands   bool // a daemon that makes machines for default/home may stay
	}{
		{nil, plane, "", false},
		{&ManagementCluster{Namespace: "default", Name: "home", Machines: true}, plane, "default/home", true},
		{&ManagementCluster{Namespace: "default", Name: "home", Machines: true, Clusters: true}, cluster, "default/home", true},
		{&ManagementCluster{Namespace: "default", Name: "home", Clusters: true}, cluster, "", false},
		{nil, plane, "", false},
	} {
		if err := SetManagementCluster(state, step.kept, []byte("admin"), []byte("provider")); err != nil {
			t.Fatal(err)
		}
		e, err := Load(state)
		if err != nil {
			t.Fatal(err)
		}
		if got := KubeconfigPath(state); got != step.asked {
			t.Errorf("%+v: commands read %s, want %s", step.kept, got, step.asked)
		}
		if got := e.madeFor(); got != step.machines {
			t.Errorf("%+v: machines are made for %q, want %q", step.kept, got, step.machines)
		}
		if got := (status{Ready: true, MadeFor: "default/home"}).fits(e); got != step.stands {
			t.Errorf("%+v: the daemon stays: %t, want %t", step.kept, got, step.stands)
		}
	}
	for _, file := range []string{clusterKubeconfig, providerKubeconfig} {
		checkMode(t, filepath.Join(state, "management", file), 0o600)
	}
}
