package artifacts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

func TestUnknownVersion(t *testing.T) {
	for version, want := range map[string]string{"v1.36.3": "v1.36.3", "1.35.4": "v1.35.4", "1.37.2": "v1.37.2", "v1.99.0": "", "latest": "",
		"": ""} {
		got, err := (Options{}).known(version)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", version, got, err)
		}
	}
	root := filepath.Join(t.TempDir(), "cache")
	_, err := Ensure(t.Context(), Options{Cache: root}, "v1.99.0")
	if err == nil || err.Error() != `kubernetes version "v1.99.0": cannot be had, only `+strings.Join(Versions(), ", ") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(root); !os.IsNotExist(err) {
		t.Errorf("bad input changed something: %v", err)
	}
}

func TestCacheFolder(t *testing.T) {
	for _, test := range []struct{ name, option, variable, xdg, want string }{
		{"the option comes first", "/a", "/b", "/c", "/a"},
		{"then the variable", "", "/b", "/c", "/b"},
		{"then the user's cache", "", "", "/c", "/c/quorate"},
	} {
		t.Setenv("QUORATE_CACHE", test.variable)
		t.Setenv("XDG_CACHE_HOME", test.xdg)
		if got, err := (Options{Cache: test.option}).CacheFolder(); err != nil || got != test.want {
			t.Errorf("%s: %s, %v, want %s", test.name, got, err, test.want)
		}
	}
}

func TestMissing(t *testing.T) {
	root := t.TempDir()
	missing, err := Missing(t.Context(), Options{Cache: root}, "v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"kubernetes v1.36.3", "coredns v1.14.7", "containerd v2.4.2", "etcd v3.6.16", "cni v1.9.1", "pause v1", "cluster-api v1.14.2",
		"images v1.36.3", "machine v1.36.3", "management v1.36.3",
	}
	if !slices.Equal(missing, want) {
		t.Errorf("missing %q, want %q", missing, want)
	}
	// What is there counts, but only under the digest of its inputs.
	m := newTestMaker(t, root)
	for _, folder := range []string{m.built["etcd"].Folder(), "cni-v1.9.1-000000000000-000000000000"} {
		if err := os.Mkdir(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	missing, err = Missing(t.Context(), Options{Cache: root}, "v1.36.3")
	if err != nil || slices.Contains(missing, "etcd v3.6.16") || !slices.Contains(missing, "cni v1.9.1") {
		t.Errorf("with etcd, and CNI plugins of other pins, there: %q, %v", missing, err)
	}
	empty := t.TempDir()
	if _, err := Ensure(t.Context(), Options{Cache: root, Prebuilt: empty}, "v1.36.3"); err == nil ||
		!strings.Contains(err.Error(), empty+" have no ") {
		t.Errorf("an empty prebuilt folder: %v", err)
	}
}

func newTestMaker(t *testing.T, root string) *maker {
	t.Helper()
	c, err := cache.Open(root, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMaker(t.Context(), c, "v1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNewestPatches: one of each minor version, and none that has a newer patch.
func TestNewestPatches(t *testing.T) {
	newest := NewestPatches()
	seen := map[string]bool{}
	for _, v := range Versions() { // newest first
		if minor := minorOf(v); slices.Contains(newest, v) == seen[minor] {
			t.Errorf("%s of %v: in %v", v, Versions(), newest)
		} else {
			seen[minor] = true
		}
	}
	if len(newest) == len(Versions()) {
		t.Errorf("no minor version of %v has two patches", Versions())
	}
}

// TestUpgrades: each minor version is reached from its patch before and from the minor version before, and no version is left out.
func TestUpgrades(t *testing.T) {
	left := map[string]bool{}
	for _, v := range Versions() {
		left[v] = true
	}
	kinds := map[string]int{} // upgrades to each version within its minor version, and others
	for _, u := range Upgrades() {
		delete(left, u.From)
		delete(left, u.To)
		if !slices.Contains(NewestPatches(), u.To) {
			t.Errorf("%s is not the newest patch of its minor version", u.To)
		}
		kinds[fmt.Sprintf("%s %t", u.To, minorOf(u.From) == minorOf(u.To))]++
	}
	if len(left) > 0 {
		t.Errorf("no upgrade begins or ends with %v", left)
	}
	for i, v := range NewestPatches() {
		if kinds[v+" true"] != 1 {
			t.Errorf("%d upgrades to %s from a patch of its minor version, want 1: pin two patches of it", kinds[v+" true"], v)
		}
		if want := min(1, len(NewestPatches())-1-i); kinds[v+" false"] != want {
			t.Errorf("%d upgrades to %s from the minor version before, want %d", kinds[v+" false"], v, want)
		}
	}
}

// The default version can be had.
func TestDefaultVersion(t *testing.T) {
	if !slices.Contains(Versions(), DefaultVersion) {
		t.Errorf("the default version %s is none of %v", DefaultVersion, Versions())
	}
}

// TestFetched: while quorate is compiled, the modules are fetched of what the default version is built from, and of nothing else.
func TestFetched(t *testing.T) {
	script, err := os.ReadFile("../../../hack/fetch-modules.sh")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^components="(.*)"$`).FindSubmatch(script)
	if line == nil {
		t.Fatal("hack/fetch-modules.sh has no list of components")
	}
	fetched := strings.Fields(strings.ReplaceAll(string(line[1]), "$version", DefaultVersion))
	c, err := Options{Cache: t.TempDir()}.open()
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMaker(t.Context(), c, DefaultVersion)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, leaf := range m.leaves() {
		switch leaf.Name {
		case "pause", "cluster-api": // the standard library, and a module of quorate's own
		case "kubernetes":
			want = append(want, kubernetesPrefix+DefaultVersion)
		default:
			want = append(want, leaf.Name)
		}
	}
	slices.Sort(fetched)
	slices.Sort(want)
	if !slices.Equal(fetched, want) {
		t.Errorf("hack/fetch-modules.sh fetches modules of %v, and %s is built from %v", fetched, DefaultVersion, want)
	}
}

// Machines have the minor version of etcd that their kubeadm asks for.
func TestEtcdFollowsKubernetes(t *testing.T) {
	for version, want := range map[string]string{"v1.34.4": "etcd", "v1.36.3": "etcd", "v1.37.2": "etcd-3.7", "v1.38.0-alpha.1": "etcd-3.7",
		"v2.0.0": "etcd-3.7"} {
		if got := etcdOf(version); got != want {
			t.Errorf("%s has %s, want %s", version, got, want)
		}
	}
}

// Only what depends on the version of Kubernetes is built again for another one.
func TestVersionsShareWhatTheyCan(t *testing.T) {
	newer := newTestMaker(t, t.TempDir())
	older, err := newMaker(t.Context(), newer.cache, "v1.35.4")
	if err != nil {
		t.Fatal(err)
	}
	for name, product := range newer.built {
		if same := product.Folder() == older.built[name].Folder(); same != (name != "kubernetes") {
			t.Errorf("%s: %s and %s", name, product.Folder(), older.built[name].Folder())
		}
	}
	for _, pair := range [][2]cache.Product{
		{newer.images(), older.images()}, {newer.machine(), older.machine()}, {newer.management(), older.management()},
		{newer.store(nil), older.store(nil)},
	} {
		if pair[0].Inputs == pair[1].Inputs {
			t.Errorf("%s and %s have the same inputs", pair[0], pair[1])
		}
	}
}

// What is made of other products must be made again when these change, and cannot be made where these cannot.
func TestInputsReachWhatDependsOnThem(t *testing.T) {
	products := func(m *maker) map[string]cache.Product {
		return map[string]cache.Product{"images": m.images(), "machine": m.machine(), "management": m.management(), "store": m.store(nil)}
	}
	for leaf, dependents := range map[string][]string{
		"kubernetes": {"images", "machine", "management", "store"},
		"etcd":       {"images", "machine", "management", "store"},
		"containerd": {"machine", "store"},
		"coredns":    {"images", "store"},
		"pause":      {"images", "store"},
		"cni":        nil,
	} {
		m := newTestMaker(t, t.TempDir())
		before := products(m)
		changed, broken := m.built[leaf], errors.New("no toolchain")
		changed.Inputs, changed.Host, changed.HostErr = cache.Sum("changed"), cache.Sum("changed"), broken
		m.built[leaf] = changed
		for name, product := range products(m) {
			depends := slices.Contains(dependents, name)
			if (product.Inputs != before[name].Inputs) != depends || (product.Host != before[name].Host) != depends ||
				errors.Is(product.HostErr, broken) != depends {
				t.Errorf("%s changed: %s depends on it: %v", leaf, name, !depends)
			}
		}
	}
}

func TestCollectionsLinkPrograms(t *testing.T) {
	m := newTestMaker(t, t.TempDir())
	m.fill(t)
	folder, err := m.cache.Ensure(t.Context(), m.machine())
	if err != nil {
		t.Fatal(err)
	}
	programs := []string{"containerd", "containerd-shim-runc-v2", "ctr", "etcdctl", "etcdutl", "kubeadm", "kubectl", "kubelet",
		"manifest.json"}
	if got := names(t, folder); !slices.Equal(got, programs) {
		t.Errorf("machine: %v", got)
	}
	there, errA := os.Stat(filepath.Join(folder, "kubelet"))
	source, errB := os.Stat(filepath.Join(m.folders["kubernetes"], "kubelet"))
	if errA != nil || errB != nil || !os.SameFile(there, source) {
		t.Errorf("kubelet is a copy: %v %v", errA, errB)
	}
	if folder, err = m.cache.Ensure(t.Context(), m.management()); err != nil {
		t.Fatal(err)
	}
	if got, want := names(t, folder), []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl",
		"manifest.json"}; !slices.Equal(got, want) {
		t.Errorf("management: %v", got)
	}
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// fill puts scripts in the place of the leaves' programs. They come from the pins, so that a program which is wanted
// somewhere but not built is missing here too.
func (m *maker) fill(t *testing.T) {
	t.Helper()
	for _, c := range components(m.version) {
		p, err := readPin(c.folder)
		if err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		m.folders[c.name] = folder
		for _, tool := range p.directives("tool") {
			file := program(tool[0])
			if renamed, ok := c.rename[file]; ok {
				file = renamed
			}
			if named, ok := c.names[tool[0]]; ok {
				file = named
			}
			script(t, filepath.Join(folder, file), "echo this is "+file)
		}
	}
	m.folders["pause"] = t.TempDir()
	script(t, filepath.Join(m.folders["pause"], "pause"), "sleep infinity")
}

func script(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
}

const kubeadmList = `registry.k8s.io/kube-apiserver:v1.36.3
registry.k8s.io/kube-controller-manager:v1.36.3
registry.k8s.io/kube-scheduler:v1.36.3
registry.k8s.io/kube-proxy:v1.36.3
registry.k8s.io/coredns/coredns:v1.14.2
registry.k8s.io/pause:3.10.2
registry.k8s.io/etcd:3.6.8-0`

func TestImages(t *testing.T) {
	if _, err := findProgram("nft"); err != nil {
		t.Skip("needs nft: hack/install-packages.sh")
	}
	m := newTestMaker(t, t.TempDir())
	m.fill(t)
	// A kubeadm that answers only the right question.
	script(t, filepath.Join(m.folders["kubernetes"], "kubeadm"),
		`[ "$*" = "config images list --kubernetes-version v1.36.3" ] || exit 1; cat <<EOF`+"\n"+kubeadmList+"\nEOF")
	folder, err := m.cache.Ensure(t.Context(), m.images())
	if err != nil {
		t.Fatal(err)
	}
	entrypoints := map[string]string{"coredns": "/coredns", "pause": "/pause"}
	for _, name := range strings.Fields(kubeadmList) {
		base, err := baseName(name)
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := tarball.LoadManifest(opener(filepath.Join(folder, base+".tar")))
		if err != nil || len(manifest) != 1 {
			t.Fatalf("%s: %+v, %v", name, manifest, err)
		}
		also, err := contents[base].otherNames(name)
		if got, want := manifest[0].RepoTags, append(also, name); err != nil || !sameSet(got, want) {
			t.Errorf("%s is named %v, want %v, %v", name, got, want, err)
		}
		image, err := tarball.ImageFromPath(filepath.Join(folder, base+".tar"), nil)
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		want := entrypoints[base]
		if want == "" {
			want = "/usr/local/bin/" + base
		}
		if !slices.Equal(config.Config.Entrypoint, []string{want}) {
			t.Errorf("%s starts %v, want %s", name, config.Config.Entrypoint, want)
		}
	}
	proxy, err := exec.Command("sh", "-c", `tar -xOf "$1" --wildcards '*.tar.gz' | tar -tz`, "sh",
		filepath.Join(folder, "kube-proxy.tar")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, proxy)
	}
	for _, want := range []string{"usr/local/bin/kube-proxy\n", "usr/sbin/nft\n", "/libnftables.so.1\n", "etc/nsswitch.conf\n",
		"etc/protocols\n"} {
		if !strings.Contains(string(proxy), want) {
			t.Errorf("kube-proxy's image has no %s, only\n%s", strings.TrimSpace(want), proxy)
		}
	}
}

func TestImageNamesAreRefused(t *testing.T) {
	kubeadm := filepath.Join(t.TempDir(), "kubeadm")
	for _, test := range []struct{ name, text, want string }{
		{"an unknown image", "echo '" + kubeadmList + "\nregistry.k8s.io/novelty:v1'",
			"image registry.k8s.io/novelty:v1: how to make it is not known, only coredns, etcd, "},
		{"too few", "echo registry.k8s.io/pause:3.10.2", "want 7 of them, it lists 1: registry.k8s.io/pause:3.10.2"},
		{"failure", "echo no such flag >&2; exit 3", "exit status 3: no such flag"},
	} {
		script(t, kubeadm, test.text)
		if _, err := imageNames(t.Context(), kubeadm, "v1.36.3"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

// Without a store machines still work: where containerd cannot make one, that is told and not an error.
func TestStoreIsOptional(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: nobody else makes a store")
	}
	m := newTestMaker(t, t.TempDir())
	if m.images().HostErr != nil {
		t.Skipf("needs a host on which products can be made: %v", m.images().HostErr)
	}
	m.fill(t)
	script(t, filepath.Join(m.folders["containerd"], "containerd"), "echo overlayfs is not for this folder >&2; exit 1")
	var told string
	c, err := cache.Open(t.TempDir(), "", func(p Progress) {
		if p.Phase == cache.Failed {
			told = p.Detail
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	m.cache = c
	folder, err := m.storeIfPossible(t.Context(), nil)
	if err != nil || folder != "" {
		t.Errorf("store %q, %v", folder, err)
	}
	if !strings.Contains(told, "exit status 1") || !strings.Contains(told, "overlayfs is not for this folder") {
		t.Errorf("told %q", told)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "quorate-store-*")); len(left) > 0 && os.Getenv("TMPDIR") != "" {
		t.Errorf("left: %v", left)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.storeIfPossible(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

func TestManifestsOfClusterAPI(t *testing.T) {
	m := newTestMaker(t, t.TempDir())
	product := m.built["cluster-api"]
	if product.HostErr != nil {
		t.Skip(product.HostErr)
	}
	folder, err := m.cache.Ensure(t.Context(), product)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"core/crd/bases/cluster.x-k8s.io_machines.yaml", "core/crd/patches/webhook_in_machines.yaml", "core/webhook/manifests.yaml",
		"core/rbac/role.yaml", "bootstrap/crd/bases/bootstrap.cluster.x-k8s.io_kubeadmconfigs.yaml", "bootstrap/webhook/manifests.yaml",
		"bootstrap/rbac/role.yaml",
	} {
		if info, err := os.Stat(filepath.Join(folder, want)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", want, err)
		}
	}
	mod, err := os.ReadFile("../../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?m)^\tsigs\.k8s\.io/cluster-api ` + regexp.QuoteMeta(product.Version) + `$`).Match(mod) {
		t.Errorf("the manifests are of %s, the controllers are not", product)
	}
}
