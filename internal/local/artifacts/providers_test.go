package artifacts

import (
	"go/format"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// Each image has the name that manifests ask for, one program, and a user whom a cluster lets run as nobody special.
func TestProviderImages(t *testing.T) {
	m := newTestMaker(t, t.TempDir())
	m.fill(t)
	product := m.providerImages()
	product.HostErr = nil // nothing is compiled
	folder, err := m.cache.Ensure(t.Context(), product)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]struct{ name, entrypoint string }{
		"cluster-api-controller.tar":           {"registry.k8s.io/cluster-api/cluster-api-controller:v1.14.2", "/manager"},
		"kubeadm-bootstrap-controller.tar":     {"registry.k8s.io/cluster-api/kubeadm-bootstrap-controller:v1.14.2", "/manager"},
		"kubeadm-control-plane-controller.tar": {"registry.k8s.io/cluster-api/kubeadm-control-plane-controller:v1.14.2", "/manager"},
		"cert-manager-controller.tar":          {"quay.io/jetstack/cert-manager-controller:v1.21.2", "/controller"},
		"cert-manager-webhook.tar":             {"quay.io/jetstack/cert-manager-webhook:v1.21.2", "/webhook"},
		"cert-manager-cainjector.tar":          {"quay.io/jetstack/cert-manager-cainjector:v1.21.2", "/cainjector"},
	} {
		tag, err := name.NewTag(want.name)
		if err != nil {
			t.Fatal(err)
		}
		image, err := tarball.ImageFromPath(filepath.Join(folder, file), &tag)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		config, err := image.ConfigFile()
		if err != nil || !slices.Equal(config.Config.Entrypoint, []string{want.entrypoint}) || config.Config.User != "65532:65532" {
			t.Errorf("%s: %+v, %v", file, config, err)
		}
	}
	if files := names(t, folder); len(files) != len(providerImages)+1 { // and the product's manifest
		t.Errorf("images %v", files)
	}
}

// staged is a Deployment as Cluster API's sources have it.
const staged = `apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
      - args:
        - --diagnostics-address=${CAPI_DIAGNOSTICS_ADDRESS:=:8443}
        image: gcr.io/k8s-staging-cluster-api/NAME:main
        imagePullPolicy: Always
`

// TestReleased: components name the images of the release, which need not be pulled, and keep clusterctl's variables.
func TestReleased(t *testing.T) {
	want := strings.NewReplacer("gcr.io/k8s-staging-cluster-api/NAME:main", "registry.k8s.io/cluster-api/some-controller:v1.2.3", "Always",
		"IfNotPresent").Replace(staged)
	if got := string(released([]byte(strings.ReplaceAll(staged, "NAME", "some-controller")), "v1.2.3")); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestProviderRepository: the repository is laid out as clusterctl reads it; manifests that name an image which is not made are an error.
func TestProviderRepository(t *testing.T) {
	m := newTestMaker(t, t.TempDir())
	if m.tools.err != nil {
		t.Skipf("needs Go to fetch modules: %v", m.tools.err)
	}
	m.fill(t)
	script(t, filepath.Join(m.folders[clusterAPIPrograms], "kustomize"), `case "$2" in
*/core/config/default) name=cluster-api-controller ;;
*/bootstrap/kubeadm/config/default) name=kubeadm-bootstrap-controller ;;
*/controlplane/kubeadm/config/default) name=kubeadm-control-plane-controller ;;
esac
sed "s/NAME/$name/" <<'EOF'`+"\n"+staged+"EOF")
	chart := filepath.Join(m.folders["helm"], "helm")
	printing := func(names ...string) string {
		return "[ $1 = template ] || exit 0\nfor name in " + strings.Join(names, " ") +
			"; do echo \"  image: \\\"quay.io/jetstack/cert-manager-$name:v1.21.2\\\"\"; done"
	}
	script(t, chart, printing("controller", "webhook", "cainjector"))
	folder, err := m.cache.Ensure(t.Context(), m.providerRepository())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"cluster-api/v1.14.2/core-components.yaml", "cluster-api/v1.14.2/metadata.yaml", "bootstrap-kubeadm/v1.14.2/bootstrap-components.yaml",
		"bootstrap-kubeadm/v1.14.2/metadata.yaml",
		"control-plane-kubeadm/v1.14.2/control-plane-components.yaml", "control-plane-kubeadm/v1.14.2/metadata.yaml",
		"cert-manager/v1.21.2/cert-manager.yaml",
	} {
		if info, err := os.Stat(filepath.Join(folder, want)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", want, err)
		}
	}
	script(t, chart, printing("controller", "webhook", "cainjector", "novelty"))
	other := m.providerRepository()
	other.Inputs = cache.Sum("other")
	if _, err := m.cache.Ensure(t.Context(), other); err == nil || !strings.Contains(err.Error(), "cert-manager-novelty:v1.21.2") {
		t.Errorf("an image that is not made: %v", err)
	}
}

// TestBuiltProviders: what is in the cache of this host fits together.
func TestBuiltProviders(t *testing.T) {
	o := Options{}
	c, err := o.open()
	if err != nil {
		t.Fatal(err)
	}
	products, err := providers(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range products {
		if !c.Have(p) {
			t.Skipf("needs %s", p)
		}
	}
	p, err := EnsureProviders(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, file := range []string{
		"cluster-api/v1.14.2/core-components.yaml", "bootstrap-kubeadm/v1.14.2/bootstrap-components.yaml",
		"control-plane-kubeadm/v1.14.2/control-plane-components.yaml", "cert-manager/v1.21.2/cert-manager.yaml",
	} {
		text, err := os.ReadFile(filepath.Join(p.Repository, file))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "imagePullPolicy: Always") {
			t.Errorf("%s: images would have to be pulled", file)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			var object struct{ Kind string }
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			kinds[object.Kind]++
		}
	}
	if kinds["Deployment"] != len(p.Images) || kinds["CustomResourceDefinition"] < 20 || kinds["Job"] > 0 {
		t.Errorf("objects %v for %d images", kinds, len(p.Images))
	}
	for _, program := range []string{p.Clusterctl, p.Helm} {
		if info, err := os.Stat(program); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s: %v", program, err)
		}
	}
}

// TestProgramsOfOurOwn: the programs that stand in for cert-manager's are built with its pins, and are formatted, though they end in .txt.
func TestProgramsOfOurOwn(t *testing.T) {
	p, err := readPin("cert-manager")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, tool := range p.directives("tool") {
		files = append(files, program(tool[0])+"/main.go")
	}
	if got := sortedKeys(p.sources); !slices.Equal(got, files) {
		t.Errorf("programs %v, want %v", got, files)
	}
	for file, text := range p.sources {
		if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
			t.Errorf("%s is not formatted, %v", file, err)
		}
	}
	other := p
	other.sources = map[string]string{"controller/main.go": "package main"}
	if p.digest() == other.digest() {
		t.Error("other programs have the same digest")
	}
}

// TestBundleOfProviders: a bundle has what makes a management cluster where that was made.
func TestBundleOfProviders(t *testing.T) {
	o := builtCache(t)
	c, err := o.openCache()
	if err != nil {
		t.Fatal(err)
	}
	products, err := providers(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	makeSmall(t, c, products)
	file := filepath.Join(t.TempDir(), "bundle")
	if _, err := Export(t.Context(), o, []string{DefaultVersion}, file, ""); err != nil {
		t.Fatal(err)
	}
	importing := Options{Cache: t.TempDir(), Bundle: &Bundle{From: file}}
	p, err := EnsureProviders(t.Context(), importing)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Images) != 1 || !strings.HasPrefix(p.Repository, importing.Cache) {
		t.Errorf("%+v", p)
	}
	if pruned, err := Prune(t.Context(), importing, nil, true); err != nil || len(pruned) > 0 {
		t.Errorf("pruned %v, %v", pruned, err)
	}
}
