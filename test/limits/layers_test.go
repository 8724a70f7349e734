package limits

import (
	"fmt"
	"os"
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
	{"internal/core/quorum", "internal/core/version", "internal/core/windows", "internal/core/choice", "internal/cluster/pki",
		"internal/program/process", "internal/program/atomicfile", "internal/program/envfile", "internal/cluster/staticpod",
		"internal/program/buildinfo", "internal/program/signature", "internal/program/plaintext", "internal/upgrade/upgraders"},
	{"internal/core/steps", "internal/core/backup", "internal/program/untrusted", "internal/core/programs"},
	{"internal/conversion", "internal/local/artifacts", "internal/cluster/kubeconfig"},
	{"internal/core/plan", "internal/local/cloudinit", "internal/cluster/joinfailure", "internal/local/hostcheck", "internal/release"},
	{"internal/core/check"},
	{"internal/core/sim", "internal/cluster/etcd", "internal/cluster/workload", "internal/cluster/certs", "internal/cluster/machine",
		"internal/core/drift", "internal/cluster/kubeadm", "internal/local/balancer", "internal/upgrade/upgradepod", "internal/upgrade/eviction",
		"internal/core/workerplan", "internal/upgrade/runtimeclient"},
	{"internal/upgrade/updates", "internal/upgrade/upgrader", "internal/upgrade/updatehooks", "internal/cluster/backup",
		"internal/core/forecast", "internal/core/history"},
	{"internal/group/inplace", "internal/group/record"},
	{"internal/group/observe"},
	{"internal/group/act", "internal/group/status"},
	{"internal/group", "internal/kinds/etcdadm"},
	{"internal/kinds/stacked", "internal/kinds/machines", "internal/kinds/etcdcluster", "internal/admission", "internal/local/sandbox",
		"internal/upgrade/nodeupgrade", "internal/upgrade/workerupgrade", "internal/upgrade/extension"},
	{"internal/local/provider"},
	{"internal/manager"},
	{"internal/local/embed"},
	{"internal/local/selfmanaged"},
	{"internal/cli"},
	{"test/compatibility"},
	{"cmd", "test", "hack"},
}

// folders is how many folders there may be in internal/, so that a newcomer finds the right one at a glance.
const folders = 12

// place returns the layer of a package and the name under which it is listed, the longest that fits; -1: it is not listed.
func place(dir string) (int, string) {
	at, found := -1, ""
	for i, layer := range layers {
		for _, name := range layer {
			if (dir == name || strings.HasPrefix(dir, name+"/")) && len(name) > len(found) {
				at, found = i, name
			}
		}
	}
	return at, found
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
	var files []string
	for _, level := range []string{"*/*.go", "*/*/*.go"} {
		found, err := filepath.Glob("../../internal/" + level)
		if err != nil || len(found) == 0 {
			t.Fatalf("%d files, %v", len(found), err)
		}
		files = append(files, found...)
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

// TestFolders: internal/ has few folders, and docs/architecture.md says of each what belongs there.
func TestFolders(t *testing.T) {
	entries, err := os.ReadDir("../../internal")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > folders {
		t.Errorf("internal/ has %d folders, at most %d: a new package belongs into one of those", len(entries), folders)
	}
	for _, e := range entries {
		if !strings.Contains(string(page), "\n**`internal/"+e.Name()+"`** ") {
			t.Errorf("docs/architecture.md does not say what belongs in internal/%s", e.Name())
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

// TestManagerIsLean: the program for management clusters consists of nothing that it does not run there. It would be larger, also in
// memory.
func TestManagerIsLean(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "../../cmd/manager").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dependency := range strings.Lines(string(out)) {
		dependency = strings.TrimSpace(dependency)
		for _, other := range []string{ours + "manager/host", ours + "local/provider", ours + "local/sandbox", ours + "local/artifacts",
			"sigs.k8s.io/cluster-api/core/setup", "sigs.k8s.io/cluster-api/core/reconcilers/machine",
			"sigs.k8s.io/cluster-api/controllers/clustercache"} {
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
		{"internal/kinds/stacked/a.go", "internal/core/plan", false},
		{"internal/local/provider/a.go", "internal/local/sandbox/guest", false},
		{"cmd/node/main.go", "internal/local/sandbox", false},
		{"internal/kinds/stacked/a.go", "internal/local/provider", true},
		{"internal/kinds/stacked/a.go", "internal/local/sandbox", true},
		{"internal/local/sandbox/guest/a.go", "internal/kinds/stacked", true},
		{"internal/core/drift/a.go", "internal/kinds/stacked", true},
		{"internal/group/status/a.go", "internal/group/observe", false},
		{"internal/group/observe/a.go", "internal/group/act", true},
		{"internal/group/status/a.go", "internal/group/act", true},
		{"internal/group/act/a.go", "internal/group", true},
		{"internal/cluster/kubeadm/a.go", "internal/cluster/workload", true},
		{"internal/manager/a.go", "internal/cli/facts", true},
		{"internal/cli/a.go", "cmd/quorate", true},
		{"internal/inplace/a.go", "internal/core/plan", true},
		{"internal/kinds/stacked/a.go", "internal/kinds/etcdcluster", true},
	} {
		got := upward([]source{{path: test.path, imports: []string{test.imports}}})
		if (len(got) > 0) != test.wrong {
			t.Errorf("%s imports %s: %v, want it found: %v", test.path, test.imports, got, test.wrong)
		}
	}
}
