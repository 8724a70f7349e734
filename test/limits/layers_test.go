package limits

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layers are all packages, the lowest first. A package may import those of lower layers
// only, and what lies in its own folder. A new package gets its place here; who may not
// reach whom, however far below that is, stands with roles.
var layers = [][]string{
	{"api", "artifacts", "config"},
	{"internal/quorum", "internal/version", "internal/pki", "internal/process", "internal/atomicfile", "internal/envfile", "internal/staticpod", "internal/buildinfo", "internal/signature", "internal/plaintext", "internal/upgraders"},
	{"internal/steps", "internal/untrusted"},
	{"internal/conversion", "internal/artifacts", "internal/kubeconfig"},
	{"internal/plan", "internal/cloudinit", "internal/joinfailure", "internal/hostcheck", "internal/release"},
	{"internal/sim", "internal/etcd", "internal/workload", "internal/certs", "internal/machine", "internal/drift", "internal/kubeadm", "internal/balancer", "internal/upgradepod", "internal/upgrader", "internal/workerplan", "internal/runtimeclient"},
	{"internal/updates", "internal/updatehooks", "internal/forecast", "internal/history"},
	{"internal/group", "internal/etcdadm"},
	{"internal/stacked", "internal/machines", "internal/etcdcluster", "internal/admission", "internal/sandbox", "internal/nodeupgrade", "internal/workerupgrade", "internal/extension"},
	{"internal/local"},
	{"internal/manager"},
	{"internal/embed"},
	{"internal/selfmanaged"},
	{"internal/cli"},
	{"cmd", "test", "hack"},
}

// place returns the layer of a package and the name under which it is listed; -1: it is not listed.
func place(dir string) (int, string) {
	for i, layer := range layers {
		for _, name := range layer {
			if dir == name || strings.HasPrefix(dir, name+"/") {
				return i, name
			}
		}
	}
	return -1, ""
}

// placed reports whether a package is listed.
func placed(dir string) bool {
	at, _ := place(dir)
	return at >= 0
}

// TestLayers keeps dependencies pointing downwards.
func TestLayers(t *testing.T) {
	all := read(t, "../..")
	for _, text := range upward(all) {
		t.Error(text)
	}
	// What holds tests or generated files only is a package too.
	files, err := filepath.Glob("../../internal/*/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if dir := filepath.Dir(strings.TrimPrefix(file, "../../")); !placed(dir) {
			t.Errorf("%s is in no layer: give it its place", dir)
		}
	}
	for _, layer := range layers {
		for _, name := range layer {
			if !slices.ContainsFunc(all, func(s source) bool { return strings.HasPrefix(s.path, name+"/") }) {
				t.Errorf("there is no %s: strike it off the list", name)
			}
		}
	}
}

// upward says which imports point sideways or upwards, and which packages have no place.
func upward(all []source) []string {
	var found []string
	for _, s := range all {
		dir := filepath.Dir(s.path)
		if strings.HasPrefix(dir, "tools/") {
			continue // modules of their own
		}
		at, name := place(dir)
		if at < 0 {
			found = append(found, fmt.Sprintf("%s is in no layer: give it its place", dir))
			continue
		}
		for _, i := range s.imports {
			to, other := place(i)
			if to < 0 || other != name && to >= at {
				found = append(found, fmt.Sprintf("%s imports %s: dependencies point downwards", s.path, i))
			}
		}
	}
	return found
}

// TestManagerIsLean: the program for management clusters consists of nothing that it does not run there. It would be larger, also in memory.
func TestManagerIsLean(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../../cmd/manager").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dependency := range strings.Lines(string(out)) {
		dependency = strings.TrimSpace(dependency)
		for _, other := range []string{ours + "manager/host", ours + "local", ours + "sandbox", ours + "artifacts", "sigs.k8s.io/cluster-api/core/setup", "sigs.k8s.io/cluster-api/core/reconcilers/machine", "sigs.k8s.io/cluster-api/controllers/clustercache"} {
			if dependency == other || strings.HasPrefix(dependency, other+"/") {
				t.Errorf("cmd/manager depends on %s", dependency)
			}
		}
	}
}

// TestUpward: each of these is found.
func TestUpward(t *testing.T) {
	for _, test := range []struct {
		path, imports string
		wrong         bool
	}{
		{"internal/stacked/a.go", "internal/plan", false},
		{"internal/local/a.go", "internal/sandbox/guest", false},
		{"cmd/node/main.go", "internal/sandbox", false},
		{"internal/stacked/a.go", "internal/local", true},
		{"internal/stacked/a.go", "internal/sandbox", true},
		{"internal/sandbox/guest/a.go", "internal/stacked", true},
		{"internal/drift/a.go", "internal/stacked", true},
		{"internal/kubeadm/a.go", "internal/workload", true},
		{"internal/manager/a.go", "internal/cli/facts", true},
		{"internal/cli/a.go", "cmd/quorate", true},
		{"internal/inplace/a.go", "internal/plan", true},
		{"internal/stacked/a.go", "internal/etcdcluster", true},
	} {
		got := upward([]source{{path: test.path, imports: []string{test.imports}}})
		if (len(got) > 0) != test.wrong {
			t.Errorf("%s imports %s: %v, want it found: %v", test.path, test.imports, got, test.wrong)
		}
	}
}
