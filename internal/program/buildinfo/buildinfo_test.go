package buildinfo

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for want, i := range map[string]Info{
		"quorate, v0.1.0, revision abc, of 2026-11-23T04:05:06Z, go1.26.0": {Version: "v0.1.0", Revision: "abc", Date: "2026-11-23T04:05:06Z",
			Go: "go1.26.0"},
		"quorate, (devel), go1.26.0": {Version: Unknown, Go: "go1.26.0"},
	} {
		if got := i.Line("quorate"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestUnset: a program that make did not build has what Go recorded, and never an empty version.
func TestUnset(t *testing.T) {
	installed := &debug.BuildInfo{Main: debug.Module{Version: "v0.2.0"}}
	cloned := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs", Value: "git"}, {Key: "vcs.revision", Value: "def"}}}
	linked := Info{Version: "v0.1.0", Revision: "abc", Date: "2026-11-23T04:05:06Z"}
	for name, test := range map[string]struct {
		set      Info
		recorded *debug.BuildInfo
		want     Info
	}{
		"nothing":              {Info{}, &debug.BuildInfo{}, Info{Version: Unknown}},
		"go install":           {Info{}, installed, Info{Version: "v0.2.0"}},
		"go build in a clone":  {Info{}, cloned, Info{Version: Unknown, Revision: "def"}},
		"make, in a clone":     {linked, cloned, linked},
		"make, as a module":    {linked, installed, linked},
		"make without a clone": {Info{Version: "v0.1.0"}, &debug.BuildInfo{}, Info{Version: "v0.1.0"}},
	} {
		if got := test.set.or(test.recorded); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	if i := Get(); i.Version == "" || i.Go != runtime.Version() {
		t.Errorf("%+v", i)
	}
}

// TestPrograms: each program that is released prints what the linker set, and then ends. The smallest of them is built for it.
func TestPrograms(t *testing.T) {
	program := filepath.Join(t.TempDir(), "quorate-upgrader")
	const here = "github.com/quorate/quorate/internal/program/buildinfo."
	set := "-X " + here + "version=v9.8.7 -X " + here + "revision=abc-dirty -X " + here + "date=2026-11-23T04:05:06Z"
	if out, err := exec.Command("go", "build", "-ldflags", set, "-o", program, "../../../cmd/upgrader").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(program, "--version").CombinedOutput()
	if want := "quorate-upgrader, v9.8.7, revision abc-dirty, of 2026-11-23T04:05:06Z, " + runtime.Version(); err != nil ||
		strings.TrimSpace(string(out)) != want {
		t.Errorf("%s, %v, want %s", out, err, want)
	}
}
