// Package check tests the scripts behind `make check` and `make test`.
package check

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// run runs a command in a folder and returns its output and whether it succeeded.
func run(t *testing.T, dir string, environment []string, name string, args ...string) (string, bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	return string(out), err == nil
}

// write writes a file below a folder.
func write(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Each step prints its number, what it does, and which steps are left. The first that fails ends the run.
func TestSteps(t *testing.T) {
	const script = `set -euo pipefail; . ../../hack/steps.sh
step one hide "the first" echo hidden
step two show "the second" echo "shown as is"
step three hide "the third" sh -c 'echo why; exit 3'
step four hide "the fourth" echo unreached
run_steps`
	out, passed := run(t, ".", nil, "bash", "-c", script)
	want := `step 1 of 4  one: the first
  ok in N s; left: two, three, four
step 2 of 4  two: the second
shown as is
  ok in N s; left: three, four
step 3 of 4  three: the third
why
  FAILED: three, after N s: sh -c echo\ why\;\ exit\ 3 
`
	if passed || regexp.MustCompile(`\b\d+ s([;:])`).ReplaceAllString(out, "N s$1") != want {
		t.Errorf("passed: %v\n%s", passed, out)
	}
}

func TestSpent(t *testing.T) {
	for seconds, want := range map[int]string{0: "0 s", 119: "119 s", 120: "2 min 0 s", 3725: "62 min 5 s"} {
		if out, _ := run(t, ".", nil, "bash", "-c", fmt.Sprintf(". ../../hack/steps.sh; spent %d", seconds)); out != want+"\n" {
			t.Errorf("%d: %q, want %q", seconds, out, want)
		}
	}
}

// The linter gets the packages that differ from the merge base, whether their changes are committed, uncommitted or in new files.
func TestChangedPackagesAreLinted(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"check.sh", "steps.sh"} {
		text, err := os.ReadFile("../../hack/" + name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, root, "hack/"+name, string(text))
	}
	write(t, root, "Makefile", "lint-tool:\n")
	write(t, root, "go.mod", "module example.org/scratch\n\ngo 1.26\n")
	for _, name := range []string{"same", "committed", "uncommitted", "gone", "elsewhere"} {
		write(t, root, name+"/a.go", "package a\n")
	}
	write(t, root, "tools/x/go.mod", "module example.org/scratch/tools/x\n")
	// go test and go vet are left out here; linter prints its arguments.
	write(t, root, "bin/go", "#!/bin/sh\ncase $1 in test|vet) exit 0;; esac\nexec go \"$@\"\n")
	write(t, root, "bin/linter", "#!/bin/sh\n[ -n \"$FAIL\" ] && echo found something && exit 1; exit 0\n")
	git := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"}, args...)
		if out, ok := run(t, root, nil, "git", args...); !ok {
			t.Fatalf("git %v: %s", args, out)
		}
	}
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-qm", "one")
	git("checkout", "-qb", "change")
	environment := []string{"GO=" + filepath.Join(root, "bin/go"), "GOLANGCI=" + filepath.Join(root, "bin/linter"), "GOFLAGS="}
	out, ok := run(t, root, environment, filepath.Join(root, "hack/check.sh"))
	if !ok || !strings.Contains(out, "vet: no Go file differs") || !strings.Contains(out, "lint: no package differs") {
		t.Errorf("nothing differs: %s", out)
	}
	write(t, root, "committed/a.go", "package a\n\nvar A int\n")
	write(t, root, "tools/x/a.go", "package a\n")
	git("add", ".")
	git("commit", "-qm", "two")
	git("checkout", "-q", "main")
	write(t, root, "elsewhere/a.go", "package a\n\nvar A int\n")
	git("commit", "-qam", "three")
	git("checkout", "-q", "change")

	linted := func(more ...string) string {
		t.Helper()
		out, _ := run(t, root, append(more, environment...), filepath.Join(root, "hack/check.sh"))
		_, last, _ := strings.Cut(out, "  lint: ")
		return last
	}
	if got := linted(); !strings.HasPrefix(got, "./committed\n  ok in") {
		t.Errorf("a commit: %s", got)
	}
	write(t, root, "uncommitted/a.go", "package a\n\nvar A int\n")
	write(t, root, "untracked/a_test.go", "package a\n")
	write(t, root, "tagged/a_test.go", "//go:build e2e\n\npackage a\n")
	write(t, root, "same/testdata/a.go", "package a\n")
	if err := os.RemoveAll(filepath.Join(root, "gone")); err != nil {
		t.Fatal(err)
	}
	if got := linted(); !strings.HasPrefix(got, "./committed ./uncommitted ./untracked\n  ok in") {
		t.Errorf("and what is not committed: %s", got)
	}
	if got := linted("FAIL=yes"); !strings.Contains(got, "found something\n  FAILED: lint") {
		t.Errorf("a linter that finds something: %s", got)
	}
	if got := linted("BASE=change"); !strings.HasPrefix(got, "./uncommitted ./untracked\n") {
		t.Errorf("BASE=change: %s", got)
	}
	out, ok = run(t, root, []string{"BASE=none", "GO=go"}, filepath.Join(root, "hack/check.sh"))
	if ok || out != "invalid BASE=\"none\": must be a branch or a commit\n" {
		t.Errorf("BASE=none: %s", out)
	}
	write(t, root, ".golangci.yaml", "version: 2\n")
	if got := linted(); !strings.HasPrefix(got, "./...\n") {
		t.Errorf("another configuration of the linter: %s", got)
	}
}

// TestSameForEverybody: what `make test` runs does not depend on the variables of its caller. `make test-all` repeats none of it but the
// lives on machines.
func TestSameForEverybody(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"test.sh", "steps.sh"} {
		text, err := os.ReadFile("../../hack/" + name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, root, "hack/"+name, string(text))
	}
	for _, name := range []string{"bin/quorate", "path/make"} {
		write(t, root, name, "#!/bin/sh\necho \"$(basename \"$0\") $*\" >>"+root+"/calls\n")
	}
	calls := func(user string, environment []string, args ...string) string {
		t.Helper()
		_ = os.Remove(filepath.Join(root, "calls"))
		write(t, root, "path/id", "#!/bin/sh\necho "+user+"\n")
		environment = append(environment, "PATH="+filepath.Join(root, "path")+":"+os.Getenv("PATH"))
		if out, ok := run(t, root, environment, filepath.Join(root, "hack/test.sh"), args...); !ok {
			t.Fatal(out)
		}
		text, err := os.ReadFile(filepath.Join(root, "calls"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	ci := calls("0", []string{"CI=true"})
	want := `make -s packages
make -s build
quorate artifacts build
make -s verify
make -s lint
make -s unit
make -s hostile
make -s model
make -s mutate
make -s e2e RUN=(create|repair|adopt|freeze-delete|status-lost|etcd-create|backup|recover-survivor)
`
	if ci != want {
		t.Errorf("CI runs\n%swant\n%s", ci, want)
	}
	if got := calls("0", []string{"CI=", "QUORATE_E2E=worker"}); got != ci {
		t.Errorf("outside CI:\n%sin CI:\n%s", got, ci)
	}
	if got := calls("1000", nil); regexp.MustCompile("e2e|quorate|packages").MatchString(got) || !strings.Contains(got, "mutate") {
		t.Errorf("without root:\n%s", got)
	}
	for line := range strings.Lines(calls("0", nil, "rest")) {
		if strings.Contains(ci, line) {
			t.Errorf("make test-all repeats %s", line)
		}
	}
}
