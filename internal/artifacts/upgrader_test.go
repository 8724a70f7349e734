package artifacts

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// TestEnsureUpgrader: the image has the upgrader as its entry point; it is made once, and anew for another upgrader or other programs.
func TestEnsureUpgrader(t *testing.T) {
	dir := t.TempDir()
	set := &Set{Kubernetes: "v1.36.3", Machine: filepath.Join(dir, "machine-1")}
	other := &Set{Kubernetes: "v1.36.3", Machine: filepath.Join(dir, "machine-2")}
	plugins := &Set{Kubernetes: "v1.36.3", Machine: set.Machine, CNI: filepath.Join(dir, "cni-1")}
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
	if second := ensure(plugins); second == first {
		t.Error("other plugins do not give another image")
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

// TestRuntimeFiles: the image has what the set has of the runtime, and says the versions that this says of itself.
func TestRuntimeFiles(t *testing.T) {
	dir := t.TempDir()
	machine, cni := filepath.Join(dir, "machine"), filepath.Join(dir, "cni")
	write := func(path, said string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("#!/bin/sh\necho '"+said+"' >&2\n"), mode)); err != nil {
			t.Fatal(err)
		}
	}
	look := func(s *Set) string {
		t.Helper()
		files, err := runtimeFiles(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, f := range files {
			all = append(all, f.Path+f.Text)
		}
		return strings.Join(all, " ")
	}
	if got := look(&Set{Machine: machine}); got != "/versions.json{}" {
		t.Errorf("nothing is there: %s", got)
	}
	write(machine+"/containerd", "containerd github.com/containerd/containerd/v2 v2.4.3", 0o755)
	write(machine+"/containerd-shim-runc-v2", "", 0o755)
	write(machine+"/ctr", "", 0o755)
	write(cni+"/bridge", "CNI bridge plugin v1.9.1", 0o755)
	write(cni+"/manifest.json", "", 0o644)
	want := `/bin/containerd /bin/containerd-shim-runc-v2 /cni/bridge /versions.json{"containerd":"v2.4.3","cni":"v1.9.1"}`
	if got := look(&Set{Machine: machine, CNI: cni}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	write(machine+"/runc", "runc version 1.3.3", 0o755)
	if got := look(&Set{Machine: machine}); !strings.Contains(got, "/bin/runc") || !strings.Contains(got, `"runc":"v1.3.3"`) {
		t.Error(got)
	}
	write(machine+"/runc", "no version", 0o755)
	if files, err := runtimeFiles(t.Context(), &Set{Machine: machine}); err == nil {
		t.Errorf("what says no version is brought: %+v", files)
	}
}
