package compatibility

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/version"
	"github.com/quorate/quorate/internal/local/artifacts"
)

// A place is a file that knows something of versions of Kubernetes or etcd. Who adds a minor version of Kubernetes compares it with the
// sources of that version, and then writes its minor here.
type place struct {
	file string
	// knows is what the file says of versions, and source where to look for it: folders of k8s.io/kubernetes unless another module is named.
	knows, source string
	// looked is the newest minor version of v1 that it was compared with.
	looked int
}

var places = []place{
	{"internal/local/artifacts/components.go", "which etcd a version has", "cmd/kubeadm/app/constants/constants.go: DefaultEtcdVersion", 37},
	{"internal/local/artifacts/images.go", "the tags of CoreDNS", "cmd/kubeadm/app/constants/constants.go: CoreDNSVersion", 37},
	{"internal/core/backup/seed.go", "how many minors an API server may be ahead of the data",
		"the version skew policy, cmd/kubeadm/app/phases/upgrade/policy.go", 37},
	{"internal/core/drift/rules.go", "what leaving a field out means", "cmd/kubeadm/app/apis/kubeadm/v1beta4/defaults.go", 37},
	{"internal/core/drift/update.go", "by how many minors a node goes in place", "cmd/kubeadm/app/phases/upgrade/policy.go", 37},
	{"internal/kinds/etcdcluster/version.go", "which minors of etcd can be beside one another",
		"go.etcd.io/etcd/server/v3: etcdserver/version", 37},
	{"internal/upgrade/extension/inplace/fields.go", "the feature gate that control planes set", "cmd/kubeadm/app/features/features.go", 37},
	{"internal/cluster/kubeadm/coredns.go", "how the image of CoreDNS is named", "cmd/kubeadm/app/images/images.go", 37},
	{"internal/cluster/kubeadm/kubeadm.go", "the parts of ClusterConfiguration and kubeadm's defaults",
		"cmd/kubeadm/app/apis/kubeadm: types.go, v1beta4", 37},
	{"internal/cluster/kubeadm/rbac.go", "the ClusterRoleBindings that certificates rely on",
		"cmd/kubeadm/app/phases: kubeconfig, certs, bootstraptoken, upgrade/postupgrade.go", 37},
	{"internal/cluster/machine/learners.go", "etcd's flags for learners", "go.etcd.io/etcd/server/v3: etcdmain/help.go", 37},
	{"internal/cluster/machine/versions.go", "which versions may be beside one another",
		"kubeadm's and the kubelet's skew, in the release notes", 37},
	{"internal/core/check/downgrade.go", "by how many minors etcd is lowered", "go.etcd.io/etcd/server/v3: etcdserver/version/downgrade.go",
		37},
	{"internal/core/plan/downgrade.go", "by how many minors etcd is lowered", "go.etcd.io/etcd/server/v3: etcdserver/version/downgrade.go",
		37},
	{"internal/core/plan/placeholder.go", "how many learners etcd takes", "go.etcd.io/etcd/server/v3: etcdserver/api/membership", 37},
	{"internal/kinds/stacked/desired.go", "the feature gate that control planes set", "cmd/kubeadm/app/features/features.go", 37},
	{"internal/core/steps/steps.go", "by how many minors a node goes in place", "cmd/kubeadm/app/phases/upgrade/policy.go", 37},
	{"internal/upgrade/upgrader/images.go", "the version of kubeadm's API", "cmd/kubeadm/app/apis/kubeadm/scheme/scheme.go", 37},
	{"internal/core/version/version.go", "learners, and who may use a pulled image",
		"cmd/kubeadm/app/phases/etcd, pkg/features/kube_features.go", 37},
	{"internal/cluster/workload/book.go", "etcd's flags for learners", "go.etcd.io/etcd/server/v3: etcdmain/help.go", 37},
}

// knowing are texts of files that know something of versions.
var knowing = regexp.MustCompile(
	`Version\{Major: ?\w+|kubeadm\.k8s\.io/v1beta|"[\w.]*ControlPlaneKubeletLocalMode"|permissionsUntil|max-learners|\.Minor ` +
		`*(?:[<>=]|-\w)|tags: \[\]string\{`)

// TestPlaces: each file that knows something of versions is listed, and was compared with the newest pinned minor version. It prints what
// is to be looked at: `make bump-kubernetes` runs it for that.
func TestPlaces(t *testing.T) {
	newest, err := version.Parse(artifacts.Versions()[0])
	if err != nil {
		t.Fatal(err)
	}
	listed, behind := map[string]bool{}, 0
	for _, p := range places {
		listed[p.file] = true
		if !knowing.MatchString(read(t, p.file)) {
			t.Errorf("%s knows nothing of versions any more: strike it off the list", p.file)
		}
		if p.looked < newest.Minor {
			behind++
			t.Errorf("[ ] %s: %s.\n      Compare v1.%d with v1.%d: %s", p.file, p.knows, newest.Minor, p.looked, p.source)
		}
	}
	err = filepath.WalkDir(root+"internal", func(path string, entry fs.DirEntry, err error) error {
		file := strings.TrimPrefix(path, root)
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(file, "internal/core/sim/") || listed[file] {
			return err
		}
		if found := knowing.FindString(read(t, file)); found != "" {
			t.Errorf("%s has %q: list it in places, with what it knows", file, found)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if behind > 0 {
		fmt.Printf("%d places know of versions and were not compared with v1.%d yet; write its minor into test/compatibility/places_test.go as "+
			"you go\n", behind, newest.Minor)
	}
}
