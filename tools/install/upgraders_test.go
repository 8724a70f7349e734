package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/repository"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/quorate/quorate/internal/release/published"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

const (
	// mirror is where an air-gapped site has copies of the upgrader images.
	mirror = "registry.example.com/quorate/quorate-upgrader"
	// upgraderImage is the repository of a release.
	upgraderImage = "ghcr.io/quorate/quorate-upgrader"
	someBrings    = `{"containerd":"v2.4.2","cni":"v1.9.1"}`
)

// digest is made up of a letter.
func digest(letter string) string { return "sha256:" + strings.Repeat(letter, 64) }

// listed writes the lists of a release with two upgrader images, and returns their folder.
func listed(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	err := published.Write(folder, []published.Image{
		{Name: "ghcr.io/quorate/quorate-manager:" + release, Digest: digest("a"), Folder: "images/quorate-manager"},
		{Name: upgraderImage + ":" + release + "-v1.35.4", Digest: digest("b"), Folder: "images/upgrader-v1.35.4", Kubernetes: "v1.35.4"},
		{Name: upgraderImage + ":" + release + "-v1.36.3", Digest: digest("c"), Folder: "images/upgrader-v1.36.3", Kubernetes: "v1.36.3",
			Brings: someBrings},
	})
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestUpgraderImages: whichever way Quorate of a release is installed, the manager finds the upgrader images of the release by digest,
// and those of a mirror where
// that is set as docs/install.md says.
func TestUpgraderImages(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	written := releasedRepository(t)
	for _, row := range []struct {
		way        string
		namespace  string // of the manager
		repository string
		objects    map[string]unstructured.Unstructured
	}{
		{"clusterctl", "quorate-system", upgraderImage, byClusterctl(t, written, providers[0], nil, "")},
		{"clusterctl, mirror", "quorate-system", mirror, byClusterctl(t, written, providers[0], map[string]string{repositoryVariable: mirror},
			"")},
		{"clusterctl, another namespace", "elsewhere", upgraderImage, byClusterctl(t, written, providers[0], nil, "elsewhere")},
		{"clusterctl's Runtime Extension", "quorate-runtime-extension-system", upgraderImage, byClusterctl(t, written, providers[3], nil, "")},
		{
			"clusterctl's Runtime Extension, mirror", "quorate-runtime-extension-system", mirror,
			byClusterctl(t, written, providers[3], map[string]string{repositoryVariable: mirror}, ""),
		},
		{"kustomize", "quorate-system", upgraderImage, byKustomize(t, listed(t))},
		{"kustomize, mirror", "quorate-system", mirror, byKustomize(t, mirrored(t))},
		{"Helm", "quorate-system", upgraderImage, installed(t, load(t), helmValues(""))},
		{"Helm, mirror", "quorate-system", mirror, installed(t, load(t), helmValues(mirror))},
	} {
		o, found := row.objects["ConfigMap "+row.namespace+"/"+upgraders.ConfigMap]
		if !found {
			t.Errorf("%s: there is no ConfigMap", row.way)
			continue
		}
		written := &corev1.ConfigMap{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, written); err != nil {
			t.Fatal(err)
		}
		images := upgraders.Images{Reader: fake.NewClientBuilder().WithObjects(written).Build(), Namespace: row.namespace}
		for version, want := range map[string][2]string{
			"v1.35.4": {row.repository + "@" + digest("b"), ""}, "v1.36.3": {row.repository + "@" + digest("c"), someBrings}, "v1.34.0": {},
		} {
			image, err := images.Of(t.Context(), "team", version)
			brings, _, wrong := images.Brings(t.Context(), "team", version)
			if got := [2]string{image, brings}; got != want || err != nil || wrong != nil {
				t.Errorf("%s: of %s %q, want %q, %v, %v", row.way, version, got, want, err, wrong)
			}
		}
	}
}

// releasedRepository writes a repository of Quorate's providers as a release has it, and returns its folder.
func releasedRepository(t *testing.T) string {
	t.Helper()
	o := options{root: sources, out: t.TempDir(), version: release, upgraders: filepath.Join(listed(t), "upgrader-images.yaml")}
	if err := o.write(); err != nil {
		t.Fatal(err)
	}
	return o.out
}

// byClusterctl returns what clusterctl installs of a provider from a repository with some variables; namespace: into another one.
func byClusterctl(
	t *testing.T, written string, p provider, variables map[string]string, namespace string,
) map[string]unstructured.Unstructured {
	t.Helper()
	data, err := components(t, p, configuration(t, written, variables), repository.ComponentsOptions{TargetNamespace: namespace}).Yaml()
	if err != nil {
		t.Fatal(err)
	}
	return read(t, data)
}

// byKustomize returns what an overlay of config/default with the ConfigMap of the release installs.
func byKustomize(t *testing.T, lists string) map[string]unstructured.Unstructured {
	t.Helper()
	absolute, err := filepath.Abs(filepath.Join(sources, "config", "default"))
	if err != nil {
		t.Fatal(err)
	}
	relative, err := filepath.Rel(lists, absolute)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lists, "kustomization.yaml"), []byte("resources: ["+relative+", upgrader-images.yaml]\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	data, err := render(lists)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, data)
}

// mirrored returns a folder with the lists of a release after the commands of docs/install.md for a mirror.
func mirrored(t *testing.T) string {
	t.Helper()
	folder := listed(t)
	script := documented(t, "docs/install.md", "### The images of a mirror")
	shell(t, "", "cd "+folder+"\n"+script)
	return folder
}

// helmValues are those that the chart of a release has; repository: that of a mirror.
func helmValues(repository string) string {
	values := fmt.Sprintf("images: {v1.35.4: {digest: %q}, v1.36.3: {digest: %q, brings: '%s'}}", digest("b"), digest("c"), someBrings)
	if repository != "" {
		values += ", repository: " + repository
	}
	return "upgrader: {" + values + "}"
}

// TestMirror: the commands of docs/install.md copy all images of a release by their digests.
func TestMirror(t *testing.T) {
	folder := listed(t)
	log := filepath.Join(t.TempDir(), "log")
	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "skopeo"), []byte("#!/bin/sh\necho \"$@\" >> "+log+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	shell(t, "", "cd "+folder+"\n"+documented(t, "docs/install.md", "## Sites without internet"))
	got, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	const want = "copy --all --preserve-digests oci:images/quorate-manager docker://registry.example.com/quorate/quorate-manager:v0.1.7\n" +
		"copy --all --preserve-digests oci:images/upgrader-v1.35.4 docker://registry.example.com/quorate/quorate-upgrader:v0.1.7-v1.35.4\n" +
		"copy --all --preserve-digests oci:images/upgrader-v1.36.3 docker://registry.example.com/quorate/quorate-upgrader:v0.1.7-v1.36.3\n"
	if string(got) != want {
		t.Errorf("copied are\n%swant\n%s", got, want)
	}
}

// TestNoUpgraderImages: sources that are not released carry no upgrader images, so that nobody sets digests that no image has.
func TestNoUpgraderImages(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	all := map[string]map[string]unstructured.Unstructured{
		"default": objects(t, "default"), "namespaced": objects(t, "namespaced"), "chart": installed(t, load(t), ""),
		"chart with create=false": installed(t, load(t), strings.TrimSuffix(helmValues(""), "}")+", create: false}"),
	}
	unreleased, released := repositoryOf(t), releasedRepository(t)
	for _, p := range providers {
		all[p.Folder] = byClusterctl(t, unreleased, p, nil, "")
		if p.Upgraders == "" {
			all[p.Folder+" of a release"] = byClusterctl(t, released, p, nil, "")
		}
	}
	for way, objects := range all {
		for name := range objects {
			if strings.HasPrefix(name, "ConfigMap ") {
				t.Errorf("%s has %s", way, name)
			}
		}
	}
}

// TestReleasedDiffers: what a release's ConfigMap adds to the chart is what it adds to config/default.
func TestReleasedDiffers(t *testing.T) {
	const name = "ConfigMap quorate-system/" + upgraders.ConfigMap
	want, got := byKustomize(t, listed(t))[name], installed(t, load(t), helmValues(""))[name]
	if a, b := withoutHelm(want.Object), withoutHelm(got.Object); !reflect.DeepEqual(a, b) {
		t.Errorf("it differs: %s", difference(a, b))
	}
}

// TestBadUpgraderImages: a file that names no images by digest is refused, and the refusal names what is wrong.
func TestBadUpgraderImages(t *testing.T) {
	for text, want := range map[string]string{
		"data: {v1.36.3: 'a/b@sha256:c'}":                     "must be a ConfigMap with a name and images",
		"metadata: {name: a}":                                 "must be a ConfigMap with a name and images",
		"{metadata: {name: a}, data: {v1.36.3: 'a/b:v1'}}":    `invalid image "a/b:v1" of v1.36.3: must be named by digest`,
		"{metadata: {name: a}, data: {v1.36.3: '@sha256:c'}}": `invalid image "@sha256:c"`,
		"[": "reading",
	} {
		file := filepath.Join(t.TempDir(), "images.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		o := options{root: sources, out: t.TempDir(), version: release, upgraders: file}
		if err := o.write(); err == nil || !strings.Contains(err.Error(), "--upgrader-images: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", text, err, want)
		}
	}
	o := options{root: sources, out: t.TempDir(), version: release, upgraders: "missing.yaml"}
	if err := o.write(); err == nil || !strings.Contains(err.Error(), "--upgrader-images: open missing.yaml") {
		t.Errorf("a file that does not exist: %v", err)
	}
}
