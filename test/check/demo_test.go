package check

import (
	"os"
	"strings"
	"testing"
)

// demo is a tree with demo.sh, and a go and a make that build a quorate which only says that it is up. FAIL is what fails of it.
func demo(t *testing.T) (root string, env []string) {
	t.Helper()
	root = t.TempDir()
	script, err := os.ReadFile("../../hack/demo.sh")
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "hack/demo.sh", string(script))
	write(t, root, "go", `#!/bin/bash
[ "$1" = list ] || exit 1
echo 'go: downloading k8s.io/api v0.36.3' >&2
[ "$FAIL" != list ] || { echo 'go: k8s.io/api@v0.36.3: no such host' >&2; exit 1; }
[ "$FAIL" = cached ] || printf 'k8s.io/api/core/v1\nmain\n'
`)
	write(t, root, "make", `#!/bin/bash
case "$*" in
*packages*) echo 'install-packages: all packages are there, nothing to install' ;;
*programs*VERBOSE=-v)
  echo k8s.io/api/core/v1 >&2
  [ "$FAIL" != programs ] || { printf '# main\nmain.go:1:1: syntax error\n' >&2; exit 2; }
  mkdir -p bin && printf '#!/bin/bash\necho "quorate $* is run"\n' >bin/quorate && chmod +x bin/quorate ;;
esac
`)
	return root, []string{"GO=" + root + "/go", "MAKE=" + root + "/make", "QUORATE_CACHE=" + root + "/cache"}
}

// TestDemo: the first line says what is done and about how long it takes, the next ones how much there is to compile; then the cluster is
// made.
func TestDemo(t *testing.T) {
	root, env := demo(t)
	out, passed := run(t, root, env, root+"/hack/demo.sh")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if !passed || !strings.HasPrefix(lines[0], "demo: first the operating system's packages") ||
		!strings.Contains(lines[1], "processors if nothing is compiled yet") ||
		!strings.Contains(out, "Quorate's programs: 2 packages to compile") || lines[len(lines)-1] != "quorate up is run" ||
		strings.Contains(out, "k8s.io/api/core/v1\n") {
		t.Errorf("passed: %t\n%s", passed, out)
	}
	if out, passed := run(t, root, append(env, "FAIL=cached"), root+"/hack/demo.sh"); !passed ||
		!strings.Contains(out, "Quorate's programs: 0 packages to compile") {
		t.Errorf("passed: %t\n%s", passed, out)
	}
}

// TestDemoFails: what Go says of a failure is printed, and no cluster is made.
func TestDemoFails(t *testing.T) {
	for fails, want := range map[string][]string{
		"list":     {"go: k8s.io/api@v0.36.3: no such host", "demo: the list of packages could not be read"},
		"programs": {"main.go:1:1: syntax error", "demo: Quorate's programs could not be built"},
	} {
		root, env := demo(t)
		out, passed := run(t, root, append(env, "FAIL="+fails), root+"/hack/demo.sh")
		for _, text := range want {
			if passed || !strings.Contains(out, text) || strings.Contains(out, "is run") {
				t.Errorf("%s fails: passed: %t\n%s", fails, passed, out)
			}
		}
	}
}

// TestDemoWithBundle: a bundle, and what was built before, leave less to do.
func TestDemoWithBundle(t *testing.T) {
	root, env := demo(t)
	bare, _ := run(t, root, env, root+"/hack/demo.sh")
	with, passed := run(t, root, append(env, "QUORATE_BUNDLE=https://user:secret@example.org/b"), root+"/hack/demo.sh")
	write(t, root, "cache/management-v1.36.3-x/manifest.json", "{}")
	built, _ := run(t, root, env, root+"/hack/demo.sh")
	const ends = "Quorate's programs are in bin/; about "
	left := func(out string) string {
		_, after, _ := strings.Cut(out, ends)
		line, _, _ := strings.Cut(after, "\n")
		return line
	}
	if !passed || left(bare) == left(with) || left(with) != "2 min left" || left(built) != "45 s left" || strings.Contains(with, "secret") {
		t.Errorf("%q, %q, %q\n%s", left(bare), left(with), left(built), with)
	}
}
