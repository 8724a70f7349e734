package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// pinned is a tree with two patches of one minor version and one of another, and a go that has the module of v1.36.10 only. FAIL is what
// fails of it.
func pinned(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	script, err := os.ReadFile("../../hack/bump-kubernetes.sh")
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "hack/bump-kubernetes.sh", string(script))
	write(t, root, "hack/update-pins.sh", `#!/bin/bash
kubernetes='v1.37.2 v1.36.3 v1.36.1'
mkdir -p "artifacts/$1" && echo new >"artifacts/$1/go.mod.txt"
[ "$FAIL" != pins ] || { echo "update-pins: no checksum" >&2; exit 1; }
`)
	write(t, root, "go", `#!/bin/bash
case "$*" in
*@v1.99.0) printf '{\n\t"Error": "k8s.io/kubernetes@v1.99.0: 404 Not Found\\n\\tserver response: unknown revision v1.99.0"\n}\n'; exit 1 ;;
'mod download'*) printf '{\n\t"Dir": "%s/source"\n}\n' "$PWD" ;;
*TestTable*) echo changed >docs/compatibility.md; [ "$FAIL" != table ] || { echo "compatibility_test.go: no such row"; exit 1; } ;;
*TestPlaces*)
  [ "$FAIL" != places ] || { echo "places_test.go:1:1: does not compile"; exit 1; }
  [ "$FAIL" != nothing ] || exit 0
  printf '    places_test.go:67: [ ] a.go: a.\n3 places know of versions and were not compared\nFAIL\n'; exit 1 ;;
esac
`)
	write(t, root, "source/cmd/kubeadm/app/constants/constants.go", "\tPauseVersion = \"3.10\"\n")
	write(t, root, "docs/compatibility.md", "before\n")
	write(t, root, "artifacts/kubernetes-v1.37.2/go.mod.txt", "old\n")
	write(t, root, "artifacts/kubernetes-v1.36.3/go.mod.txt", "old\n")
	write(t, root, "artifacts/kubernetes-v1.36.1/go.mod.txt", "old\n")
	write(t, root, "internal/core/programs/tables/v1.37.2.txt", "old\n")
	write(t, root, "internal/core/programs/tables/v1.36.3.txt", "old\n")
	write(t, root, "internal/core/programs/tables/v1.36.1.txt", "old\n")
	return root
}

// TestBumpFails: a version that cannot be pinned leaves the tree as it was, and the reason is printed.
func TestBumpFails(t *testing.T) {
	for _, test := range []struct{ version, fail, want string }{
		{"v1.99.0", "", "bump-kubernetes: cannot download k8s.io/kubernetes@v1.99.0: k8s.io/kubernetes@v1.99.0: 404 Not Found server response: " +
			"unknown revision v1.99.0"},
		{"v1.36.10", "pins", "update-pins: no checksum"},
		{"v1.36.10", "table", "compatibility_test.go: no such row"},
		{"v1.36.10", "places", "places_test.go:1:1: does not compile"},
		{"v1.38.0", "table", "bump-kubernetes: v1.38.0 is not pinned, and all files are as they were"},
	} {
		root := pinned(t)
		before := filepath.Join(t.TempDir(), "before")
		if err := os.CopyFS(before, os.DirFS(root)); err != nil {
			t.Fatal(err)
		}
		for range 2 { // a second run says the same
			out, passed := run(t, root, []string{"GO=" + root + "/go", "FAIL=" + test.fail}, root+"/hack/bump-kubernetes.sh", test.version)
			if passed || !strings.Contains(out, test.want) {
				t.Errorf("%s, %s fails: passed: %v\n%s", test.version, test.fail, passed, out)
			}
			if out, err := exec.CommandContext(t.Context(), "diff", "-r", before, root).CombinedOutput(); err != nil {
				t.Errorf("%s, %s fails: the tree is another: %s", test.version, test.fail, out)
			}
		}
	}
}

// TestBump: of a minor version the new patch and the newest before it are pinned, and no third.
func TestBump(t *testing.T) {
	for _, test := range []struct {
		version, pinning, pins string
		gone                   bool // v1.36.1
	}{
		{"v1.36.10", "pinning v1.36.10 in place of v1.36.1", "v1.37.2 v1.36.10 v1.36.3", true},
		{"v1.37.3", "pinning v1.37.3\n", "v1.37.3 v1.37.2 v1.36.3 v1.36.1", false},
		{"v1.38.0", "pinning v1.38.0\n", "v1.38.0 v1.37.2 v1.36.3 v1.36.1", false},
	} {
		root := pinned(t)
		out, passed := run(t, root, []string{"GO=" + root + "/go", "FAIL="}, root+"/hack/bump-kubernetes.sh", test.version)
		for _, want := range []string{test.pinning, `PauseVersion "3.10"`, "[ ] a.go: a.", "3 places know", "left to do:"} {
			if !passed || !strings.Contains(out, want) {
				t.Errorf("%s: passed: %v, without %q:\n%s", test.version, passed, want, out)
			}
		}
		pins, err := os.ReadFile(root + "/hack/update-pins.sh")
		if err != nil || !strings.Contains(string(pins), "kubernetes='"+test.pins+"'") {
			t.Errorf("%s: %s, %v", test.version, pins, err)
		}
		for name, want := range map[string]bool{
			"artifacts/kubernetes-" + test.version: true, "artifacts/kubernetes-v1.36.3": true, "artifacts/kubernetes-v1.37.2": true,
			"artifacts/kubernetes-v1.36.1": !test.gone, "internal/core/programs/tables/v1.36.1.txt": !test.gone,
			"internal/core/programs/tables/v1.37.2.txt": true,
		} {
			if _, err := os.Stat(filepath.Join(root, name)); (err == nil) != want {
				t.Errorf("%s: %s: %v", test.version, name, err)
			}
		}
	}
}

// TestBumpPatch: where all places were compared with a minor version before, the list of places is not left empty.
func TestBumpPatch(t *testing.T) {
	root := pinned(t)
	out, passed := run(t, root, []string{"GO=" + root + "/go", "FAIL=nothing"}, root+"/hack/bump-kubernetes.sh", "v1.36.10")
	if !passed || !strings.Contains(out, "none: all were compared with v1.36 or a newer minor version") {
		t.Errorf("passed: %v\n%s", passed, out)
	}
}

// TestPinFails: update-pins.sh prints why it cannot have a version, and leaves no pins of it.
func TestPinFails(t *testing.T) {
	root := t.TempDir()
	script, err := os.ReadFile("../../hack/update-pins.sh")
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, "hack/update-pins.sh", string(script))
	write(t, root, "artifacts/pins.go", "package artifacts\n")
	// Like go, it prints an error as JSON where that is asked for.
	write(t, root, "bin/go", `#!/bin/bash
[[ $* != *-json* ]] && echo "go: unknown revision v1.99.0" >&2 || echo '{"Error": "unknown revision v1.99.0"}'
exit 1
`)
	out, passed := run(t, root, []string{"PATH=" + root + "/bin:" + os.Getenv("PATH")}, root+"/hack/update-pins.sh", "kubernetes-v1.99.0")
	if _, err := os.Stat(root + "/artifacts/kubernetes-v1.99.0"); passed || err == nil || !strings.Contains(out, "unknown revision v1.99.0") {
		t.Errorf("passed: %v, pins: %v\n%s", passed, err, out)
	}
}
