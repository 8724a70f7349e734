package release

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/release/published"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

const someBrings = `{"containerd":"v2.4.2","cni":"v1.9.1"}`

// someImages are images as a release has them.
func someImages() []published.Image {
	return []published.Image{
		{Name: "ghcr.io/quorate/quorate-manager:v0.1.7", Digest: "sha256:" + strings.Repeat("a", 64), Folder: "images/quorate-manager"},
		{
			Name: "ghcr.io/quorate/quorate-upgrader:v0.1.7-v1.36.3", Digest: "sha256:" + strings.Repeat("b", 64), Folder: "images/upgrader-v1.36.3",
			Kubernetes: "v1.36.3", Brings: someBrings,
		},
	}
}

// writtenImages writes a layout for each of someImages, and the lists.
func writtenImages(t *testing.T, r *Release) {
	t.Helper()
	err := r.within(func() error {
		for _, i := range someImages() {
			of := fake(t)
			of.name, of.folder = i.Name, strings.TrimPrefix(i.Folder, "images/")
			written, err := r.write(of)
			if err != nil {
				return err
			}
			written.Kubernetes, written.Brings = i.Kubernetes, i.Brings
			r.images = append(r.images, written)
		}
		return published.Write(r.Out, r.images)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLists: the list for mirrors has each image with the digest of its layout. From the ConfigMap the manager reads the upgrader images
// by their digests, and what
// they bring.
func TestLists(t *testing.T) {
	r := release(t, options(t))
	writtenImages(t, r)
	raw, err := os.ReadFile(filepath.Join(r.Out, "images.txt"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	if len(lines) != len(r.images) {
		t.Fatalf("%q", lines)
	}
	for i, line := range lines {
		var of, digest, folder string
		if _, err := fmt.Sscanf(line, "%s %s %s", &of, &digest, &folder); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if _, err := name.NewTag(of, name.StrictValidation); err != nil || of != r.images[i].Name {
			t.Errorf("%q: %v", line, err)
		}
		index, err := os.ReadFile(filepath.Join(r.Out, folder, "index.json"))
		if err != nil || !strings.Contains(string(index), `"`+digest+`"`) {
			t.Errorf("%q: %v, the layout has %s", line, err, index)
		}
	}
	raw, err = os.ReadFile(filepath.Join(r.Out, "upgrader-images.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	written := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict(raw, written); err != nil {
		t.Fatal(err)
	}
	images := upgraders.Images{Reader: clientfake.NewClientBuilder().WithObjects(written).Build(), Namespace: "quorate-system"}
	image, err := images.Of(t.Context(), "team", "v1.36.3")
	if want := "ghcr.io/quorate/quorate-upgrader@" + r.images[1].Digest; image != want || err != nil {
		t.Errorf("the image is %q, %v, want %s", image, err, want)
	}
	said, _, err := images.Brings(t.Context(), "team", "v1.36.3")
	if brings, wrong := steps.ParseBrings(said); brings != (steps.Brings{Containerd: "v2.4.2", CNI: "v1.9.1"}) || wrong != nil || err != nil {
		t.Errorf("it brings %q: %v, %v", said, wrong, err)
	}
}

// TestListsWithoutUpgraders: a release without upgrader images has no ConfigMap of them, nor that of an earlier release.
func TestListsWithoutUpgraders(t *testing.T) {
	folder := t.TempDir()
	if err := errors.Join(published.Write(folder, someImages()), published.Write(folder, someImages()[:1])); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "upgrader-images.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the ConfigMap: %v", err)
	}
	if raw, err := os.ReadFile(filepath.Join(folder, "images.txt")); err != nil || strings.Count(string(raw), "\n") != 1 {
		t.Errorf("%s, %v", raw, err)
	}
}

// TestChartHasImages: the packed chart has the images of the release; without upgrader images its values are those of the sources.
func TestChartHasImages(t *testing.T) {
	r := release(t, options(t))
	r.images = someImages()
	if err := r.Chart(); err != nil {
		t.Fatal(err)
	}
	var values struct {
		Upgrader struct {
			Repository string
			Images     map[string]struct{ Digest, Brings string }
		}
	}
	if err := yaml.Unmarshal([]byte(valuesOf(t, r)), &values); err != nil {
		t.Fatal(err)
	}
	if u := values.Upgrader; u.Repository != UpgraderImage || len(u.Images) != 1 ||
		u.Images["v1.36.3"] != struct{ Digest, Brings string }{r.images[1].Digest, someBrings} {
		t.Errorf("%+v", u)
	}
	r.images = nil
	if err := r.Chart(); err != nil {
		t.Fatal(err)
	}
	if source, err := os.ReadFile("../../charts/quorate/values.yaml"); err != nil || valuesOf(t, r) != string(source) {
		t.Errorf("%v, without images the values are\n%s", err, valuesOf(t, r))
	}
}

// valuesOf returns values.yaml of the packed chart.
func valuesOf(t *testing.T, r *Release) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(r.Out, "quorate-9.8.7.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	content, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return entries(t, content)["quorate/values.yaml"]
}

// TestComponentsHaveImages: what clusterctl installs from a release has the upgrader images of the release.
func TestComponentsHaveImages(t *testing.T) {
	o := options(t)
	o.Version = "v0.1.7" // config/metadata.yaml has its series
	r := release(t, o)
	r.images = someImages()
	if err := errors.Join(os.Mkdir(r.Out, 0o755), published.Write(r.Out, r.images), r.components(t.Context())); err != nil {
		t.Fatal(err)
	}
	for provider, want := range map[string]bool{"control-plane": true, "runtime-extension": true, "bootstrap": false} {
		raw, err := os.ReadFile(filepath.Join(r.Out, "components", provider+"-quorate", "v0.1.7", provider+"-components.yaml"))
		if got := strings.Contains(string(raw), "ghcr.io/quorate/quorate-upgrader}@"+r.images[1].Digest); got != want || err != nil {
			t.Errorf("%s has the upgrader image: %t, %v", provider, got, err)
		}
	}
}
