package check

import (
	"os"
	"strings"
	"testing"
)

// TestOutdated: a version counts that the module proxy serves, also where its list lacks it. A version of Kubernetes counts only with the
// modules that it is built with. A proxy that cannot be asked is an error.
func TestOutdated(t *testing.T) {
	script, err := os.ReadFile("../../hack/outdated.sh")
	if err != nil {
		t.Fatal(err)
	}
	const pins, kubernetes, api = "v1.36.3 v1.37.2", "k8s.io/kubernetes@v1.", "k8s.io/api@v0."
	const current, patch = "all pins are the newest", "Kubernetes v1.36.3: the proxy has v1.36."
	const minor = "Kubernetes: the proxy has the minor version v1.38."
	for name, test := range map[string]struct{ listed, served, want string }{
		"all pins":                    {pins, "", current},
		"the list lacks a pin":        {"v1.36.3", "", current},
		"a patch that is listed":      {pins + " v1.36.10", "", patch + "10"},
		"a patch that is served":      {pins, kubernetes + "36.4 " + api + "36.4", patch + "4"},
		"two patches that are served": {"v1.37.2", kubernetes + "36.4 " + api + "36.4 " + kubernetes + "36.5 " + api + "36.5", patch + "5"},
		"a patch without a module": {pins, kubernetes + "36.4",
			"k8s.io/kubernetes@v1.36.4 cannot be built: the proxy lacks k8s.io/api@v0.36.4\n" + current},
		"a minor version that is listed": {pins + " v1.38.1", "", minor + "1"},
		"a minor version that is served": {pins, kubernetes + "38.0 " + api + "38.0", minor + "0"},
		"a beta of a minor version":      {pins + " v1.38.0-beta.0", "", current},
		"a proxy that does not answer": {pins, "none",
			"outdated: cannot ask the module proxy for k8s.io/kubernetes@v1.37.3: go: k8s.io/kubernetes@v1.37.3: connection refused"},
		"etcd": {pins, "go.etcd.io/etcd/server/v3@v3.6.17", "etcd v3.6.16: the proxy has v3.6.17"},
	} {
		root := t.TempDir()
		write(t, root, "hack/outdated.sh", string(script))
		write(t, root, "hack/update-pins.sh", "kubernetes='v1.37.2 v1.36.3'\netcd=v3.6.16 etcd37=v3.7.3 etcd35=v3.5.35 clusterapi=v1.14.2\n")
		for _, minor := range []string{"36.3", "37.2"} {
			sums := "k8s.io/api v0." + minor + " h1:a=\nk8s.io/api v0." + minor + "/go.mod h1:a=\nk8s.io/klog/v2 v2.1.0 h1:a=\n"
			write(t, root, "artifacts/kubernetes-v1."+minor+"/go.sum.txt", sums)
		}
		write(t, root, "go", `#!/bin/bash
case "$*" in
'list -m -versions k8s.io/kubernetes') echo "k8s.io/kubernetes $LISTED" ;;
'list -m -versions go.etcd.io'*) echo 'etcd v3.5.35 v3.6.16 v3.7.3' ;;
'list -m -versions '*) echo 'cluster-api v1.14.2' ;;
'mod download '*) for module in "${@:3}"; do [[ " $SERVED " == *" $module "* ]] || echo "go: $module: $WHY"; done | { ! grep . >&2; } ;;
esac
`)
		why := "reading https://proxy.example.org: 404 Not Found"
		if test.served == "none" {
			why = "connection refused"
		}
		out, passed := run(t, root, []string{"GO=" + root + "/go", "LISTED=" + test.listed, "SERVED=" + test.served, "WHY=" + why},
			root+"/hack/outdated.sh")
		if passed != strings.HasSuffix(test.want, current) || !strings.Contains(out, test.want) {
			t.Errorf("%s: passed: %v, want %q:\n%s", name, passed, test.want, out)
		}
	}
}
