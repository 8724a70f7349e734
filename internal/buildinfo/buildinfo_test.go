package buildinfo

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestLine(t *testing.T) {
	for want, i := range map[string]Info{
		"quorate, v0.1.0, revision abc, of 2026-11-23T04:05:06Z, go1.26.0": {Version: "v0.1.0", Revision: "abc", Date: "2026-11-23T04:05:06Z", Go: "go1.26.0"},
		"quorate, (devel), go1.26.0":                                       {Version: Unknown, Go: "go1.26.0"},
	} {
		if got := i.Line("quorate"); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestUnset: a program that make did not build says so, and does not print an empty version.
func TestUnset(t *testing.T) {
	if i := Get(); i.Version != Unknown || i.Go != runtime.Version() {
		t.Errorf("%+v", i)
	}
}

// TestPrograms: each program that is released prints what the linker set, and then ends. The smallest of them is built for it.
func TestPrograms(t *testing.T) {
	program := filepath.Join(t.TempDir(), "quorate-upgrader")
	const here = "github.com/quorate/quorate/internal/buildinfo."
	set := "-X " + here + "version=v9.8.7 -X " + here + "revision=abc-dirty -X " + here + "date=2026-11-23T04:05:06Z"
	if out, err := exec.Command("go", "build", "-ldflags", set, "-o", program, "../../cmd/upgrader").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, err := exec.Command(program, "--version").CombinedOutput()
	if want := "quorate-upgrader, v9.8.7, revision abc-dirty, of 2026-11-23T04:05:06Z, " + runtime.Version(); err != nil || strings.TrimSpace(string(out)) != want {
		t.Errorf("%s, %v, want %s", out, err, want)
	}
}
