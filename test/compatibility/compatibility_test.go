package compatibility

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	kubeadmtypes "sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/kinds/etcdadm"
	"github.com/quorate/quorate/internal/kinds/etcdcluster"
	"github.com/quorate/quorate/internal/local/artifacts"
)

const root = "../../"

var update = flag.Bool("update", false, "write what the code says into the first table of docs/compatibility.md")

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(root + file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// found is the only group of a pattern in a file.
func found(t *testing.T, file, pattern string) string {
	t.Helper()
	all := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1)
	if len(all) != 1 {
		t.Fatalf("%s matches %d times in %s", pattern, len(all), file)
	}
	return all[0][1]
}

// contract is that of the newest release series.
func contract(t *testing.T) string {
	t.Helper()
	var metadata struct {
		ReleaseSeries []struct{ Contract string }
	}
	if err := yaml.Unmarshal([]byte(read(t, "config/metadata.yaml")), &metadata); err != nil || len(metadata.ReleaseSeries) == 0 {
		t.Fatalf("%+v, %v", metadata, err)
	}
	return metadata.ReleaseSeries[len(metadata.ReleaseSeries)-1].Contract
}

// lowest is the first version in a list that is accepted, and the one before is not.
func lowest(t *testing.T, accepted func(minor uint64) bool) uint64 {
	t.Helper()
	for minor := range uint64(100) {
		if accepted(minor) {
			return minor
		}
	}
	t.Fatal("none is accepted")
	return 0
}

// stackedEtcd returns the etcd of control plane machines, each with its versions of Kubernetes.
func stackedEtcd(t *testing.T) string {
	t.Helper()
	var text, last string
	for _, kubernetes := range artifacts.Versions() {
		etcd, err := artifacts.StackedEtcd(kubernetes)
		switch {
		case err != nil:
			t.Fatal(err)
		case etcd == last:
			text += ", " + kubernetes
		default:
			text += "; " + etcd + " for " + kubernetes
		}
		last = etcd
	}
	return strings.TrimPrefix(text, "; ")
}

// TestTable: each line of the first table says what the code says, and no line is more or less.
func TestTable(t *testing.T) {
	etcds, err := artifacts.EtcdVersions()
	if err != nil {
		t.Fatal(err)
	}
	kubeadm := lowest(t, func(minor uint64) bool {
		_, err := kubeadmtypes.KubeVersionToKubeadmAPIGroupVersion(semver.Version{Major: 1, Minor: minor})
		return err == nil
	})
	etcd := lowest(t, func(minor uint64) bool { return etcdadm.WrongVersion(fmt.Sprintf("3.%d.0", minor)) == "" })
	mixed := found(t, "internal/kinds/etcdcluster/version.go", `var last35 = version.Version\{Major: 3, Minor: 5, Patch: (\d+)\}`)
	want := map[string]string{
		"Kubernetes on machines, built from pins and run by `make e2e`": strings.Join(artifacts.Versions(), ", "),
		"Kubernetes, default version":                                   artifacts.DefaultVersion,
		"Kubernetes that kubeadm's API is written for":                  fmt.Sprintf("v1.%d and later", kubeadm),
		"Cluster API":                      found(t, "go.mod", `(?m)^\tsigs.k8s.io/cluster-api (\S+)$`),
		"Cluster API's contract":           contract(t),
		"Kubernetes client in the manager": found(t, "go.mod", `(?m)^\tk8s.io/client-go (\S+)$`),
		"etcd on machines of its own, built from pins and run by `make e2e`": strings.Join(etcds, ", "),
		"etcd on control plane machines, built from pins":                    stackedEtcd(t),
		"etcd on machines of its own, where no version is given":             etcdcluster.DefaultVersion,
		"etcd that an `EtcdCluster` accepts":                                 fmt.Sprintf("3.%d and later", etcd),
		"etcd of 3.5 that can be beside 3.6":                                 "3.5." + mixed + " and later",
		"Go that builds it":                                                  found(t, "go.mod", `(?m)^go (\S+)$`),
	}
	page := read(t, "docs/compatibility.md")
	if *update {
		for what, versions := range want {
			page = regexp.MustCompile(`(?m)^\| `+regexp.QuoteMeta(what)+` \| .+ \|$`).ReplaceAllLiteralString(page, "| "+what+" | "+versions+" |")
		}
		if err := os.WriteFile(root+"docs/compatibility.md", []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	table, _, _ := strings.Cut(page, "\n## ")
	lines := regexp.MustCompile(`(?m)^\| (.+?) \| (.+?) \|$`).FindAllStringSubmatch(table, -1)[2:]
	for _, line := range lines {
		if want[line[1]] != line[2] {
			t.Errorf("%s: the page says %q, the code %q", line[1], line[2], want[line[1]])
		}
		delete(want, line[1])
	}
	for what := range want {
		t.Errorf("the page does not say: %s", what)
	}
}

// TestKinds: the page names every kind and version that is served.
func TestKinds(t *testing.T) {
	_, page, _ := strings.Cut(read(t, "docs/compatibility.md"), "\n## Kinds\n")
	files, err := os.ReadDir(root + "config/crd")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), "s.yaml") || strings.HasPrefix(f.Name(), "infrastructure.") { // local machines are of `quorate up` alone
			continue
		}
		var definition struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Served bool
				}
			}
		}
		if err := yaml.Unmarshal([]byte(read(t, "config/crd/"+f.Name())), &definition); err != nil {
			t.Fatal(err)
		}
		kind := definition.Spec.Names.Kind
		line := regexp.MustCompile("(?m)^\\|.*`" + kind + "`.*$").FindString(page)
		for _, v := range definition.Spec.Versions {
			seen++
			if !v.Served || !strings.Contains(line, v.Name) {
				t.Errorf("%s %s, served: %t, is described by %q", kind, v.Name, v.Served, line)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d versions of kinds were looked at", seen)
	}
}

// TestSkew: what the page says of a control plane's versions is what is refused.
func TestSkew(t *testing.T) {
	machines := []*clusterv1.Machine{{Spec: clusterv1.MachineSpec{Version: "v1.35.4"}}, {Spec: clusterv1.MachineSpec{Version: "v1.36.3"}}}
	for want, accepted := range map[string]bool{"v1.37.0": false, "v1.36.9": true, "v1.35.0": true, "v1.34.9": false} {
		if wrong := machine.Leap(want, machines); (wrong == "") != accepted {
			t.Errorf("%s: %q", want, wrong)
		}
	}
	for has, accepted := range map[string]bool{"v1.37.0": true, "v1.35.0": true, "v1.34.0": false, "v1.38.0": false} {
		if wrong := machine.TooFar("v1.36.3", has); (wrong == "") != accepted {
			t.Errorf("%s: %q", has, wrong)
		}
	}
}
