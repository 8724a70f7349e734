package image

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

func both(t *testing.T) []Image {
	t.Helper()
	var images []Image
	for _, arch := range []string{"amd64", "arm64"} {
		i := example(t)
		i.Architecture, i.User, i.Created = arch, "65532:65532", time.Unix(1700000000, 0).UTC()
		i.Labels = map[string]string{"org.opencontainers.image.title": "example"}
		images = append(images, i)
	}
	return images
}

// TestWriteLayout: the layout has one index, under the image's name, with an image for each architecture, and all of it is valid.
func TestWriteLayout(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "layout")
	images := both(t)
	written, err := WriteLayout(folder, t.TempDir(), images)
	if err != nil {
		t.Fatal(err)
	}
	root, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	top, err := root.IndexManifest()
	if err != nil || len(top.Manifests) != 1 || top.Manifests[0].Digest != written.Digest ||
		top.Manifests[0].Annotations[refName] != images[0].Name {
		t.Fatalf("%+v, %v", top, err)
	}
	index, err := root.ImageIndex(written.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || manifest.MediaType != types.OCIImageIndex || len(manifest.Manifests) != 2 {
		t.Fatalf("%+v, %v", manifest, err)
	}
	for n, d := range manifest.Manifests {
		image, err := index.Image(d.Digest)
		if err != nil {
			t.Fatal(err)
		}
		check(t, image, d, images[n])
		if s := written.Sizes[n]; s.Architecture != images[n].Architecture || s.Compressed <= 0 || s.Unpacked < 512 {
			t.Errorf("%+v", s)
		}
	}
}

func check(t *testing.T, image v1.Image, d v1.Descriptor, want Image) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if d.Platform.Architecture != want.Architecture || config.Architecture != want.Architecture || d.MediaType != types.OCIManifestSchema1 ||
		c.User != want.User || !slices.Equal(c.Entrypoint, want.Entrypoint) || c.Labels["org.opencontainers.image.title"] != "example" ||
		!config.Created.Equal(want.Created) {
		t.Errorf("%+v has %+v", d, config)
	}
}

// TestLayoutIsTheSame: a second layout has the same bytes and modes, and leaves nothing in the work folder.
func TestLayoutIsTheSame(t *testing.T) {
	var texts []string
	work := t.TempDir()
	for range 2 {
		folder := filepath.Join(t.TempDir(), "layout")
		if _, err := WriteLayout(folder, work, both(t)); err != nil {
			t.Fatal(err)
		}
		text := ""
		err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			if info.Mode() != 0o644 {
				t.Errorf("%s is %s", file, info.Mode())
			}
			raw, err := os.ReadFile(file)
			text += file[len(folder):] + string(raw)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if texts[0] != texts[1] {
		t.Error("two layouts of the same files differ")
	}
	if left, err := os.ReadDir(work); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestNoLayoutOfNothing(t *testing.T) {
	if _, err := WriteLayout(t.TempDir(), t.TempDir(), nil); err == nil {
		t.Error("a layout of no image is written")
	}
}
