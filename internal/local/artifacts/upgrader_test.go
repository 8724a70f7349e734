package artifacts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/quorate/quorate/internal/core/steps"
)

// TestEnsureUpgrader: the image has the upgrader as its entry point; it is made once, and again for another upgrader or other programs.
func TestEnsureUpgrader(t *testing.T) {
	dir := t.TempDir()
	set := &Set{Kubernetes: "v1.36.3", Machine: filepath.Join(dir, "machine-1")}
	other := &Set{Kubernetes: "v1.36.3", Machine: filepath.Join(dir, "machine-2")}
	for _, s := range []*Set{set, other} {
		if err := os.Mkdir(s.Machine, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, p := range upgraderPrograms {
			if err := os.WriteFile(filepath.Join(s.Machine, p), []byte(p), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	program := filepath.Join(dir, "quorate-upgrader")
	write := func(text string) {
		if err := os.WriteFile(program, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	o := Options{Cache: filepath.Join(dir, "cache")}
	ensure := func(s *Set) string {
		file, err := EnsureUpgrader(t.Context(), o, s, program)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	first := ensure(set)
	tag, err := name.NewTag("quorate.io/upgrader:v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	made, err := tarball.ImageFromPath(first, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := made.ConfigFile()
	if err != nil || !slices.Equal(config.Config.Entrypoint, []string{"/upgrader"}) {
		t.Errorf("%+v, %v", config, err)
	}
	if again := ensure(set); again != first {
		t.Errorf("%s, then %s", first, again)
	}
	if second := ensure(other); second == first {
		t.Error("other programs do not give another image")
	}
	write("second")
	if second := ensure(set); second == first {
		t.Error("another upgrader does not give another image")
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	if _, err := EnsureUpgrader(t.Context(), o, set, program); err == nil {
		t.Error("an upgrader that is not there makes an image")
	}
}

// TestPublishedPrograms: what the published image of an upgrader has of each component, and where. Each has the tools of its own version of
// etcd.
func TestPublishedPrograms(t *testing.T) {
	for version, etcd := range map[string]string{"v1.37.2": "etcd-3.7", "v1.36.3": "etcd"} {
		for _, c := range components(version) {
			pins, err := readPin(c.folder)
			if err != nil {
				t.Fatal(err)
			}
			folder, programs := c.ofUpgrader(version, pins)
			want := map[string]string{
				"kubernetes": "/bin kubeadm kubectl kubelet", etcd: "/bin etcdctl etcdutl", "containerd": "/bin containerd containerd-shim-runc-v2 ctr",
				"cni": "/cni bridge host-local loopback portmap ptp",
			}[c.name]
			slices.Sort(programs)
			if got := strings.TrimSpace(folder + " " + strings.Join(programs, " ")); got != want {
				t.Errorf("%s, %s: %s, want %s", version, c.name, got, want)
			}
			if folder == steps.PluginDir != (c.name == "cni") {
				t.Errorf("%s, %s is in %s", version, c.name, folder)
			}
		}
	}
	brings := bringsOf(map[string]string{"containerd": "v2.4.2", "cni": "v1.9.1", "kubernetes": "v1.36.3"})
	if brings != (steps.Brings{Containerd: "v2.4.2", CNI: "v1.9.1"}) {
		t.Errorf("%+v", brings)
	}
}
