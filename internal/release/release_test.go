package release

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
	"github.com/quorate/quorate/internal/release/published"
)

func options(t *testing.T) Options {
	t.Helper()
	return Options{Root: "../..", Out: filepath.Join(t.TempDir(), "dist"), Version: "v9.8.7", Revision: "0123456789abcdef",
		Date: "2026-11-23T04:05:06Z", Architectures: []string{"amd64"}}
}

func release(t *testing.T, o Options) *Release {
	t.Helper()
	r, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNew(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"":             func(*Options) {},
		"version":      func(o *Options) { o.Version = "1.0" },
		"date":         func(o *Options) { o.Date = "yesterday" },
		"revision":     func(o *Options) { o.Revision = "" },
		"architecture": func(o *Options) { o.Architectures = []string{"s390x"} },
	} {
		o := options(t)
		change(&o)
		_, err := New(t.Context(), o)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	o := options(t)
	o.Version, o.Revision, o.Architectures = "", "0123456789abcdef-dirty", nil
	if r := release(t, o); r.Version != "v0.0.0-g0123456789ab-dirty" || !slices.Equal(r.Architectures, Architectures) ||
		len(r.Kubernetes) == 0 {
		t.Errorf("%+v", r.Options)
	}
	o.Kubernetes = []string{}
	if r := release(t, o); len(r.Kubernetes) != 0 {
		t.Errorf("none were asked for: %v", r.Kubernetes)
	}
}

// fake is a recipe whose program is this test itself, which the linker has said the modules of.
func fake(t *testing.T) recipe {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return recipe{
		name: "example.com/fake:v1", folder: "fake", title: "fake", user: nonroot, entrypoint: "/fake", most: 1 << 30,
		programs: func(string) (programs, texts map[string]string, err error) {
			return map[string]string{"/fake": program}, map[string]string{"/note.json": "{}"}, nil
		},
	}
}

func written(t *testing.T, r *Release, of recipe) (v1.Hash, v1.Image) {
	t.Helper()
	var said published.Image
	if err := r.within(func() (err error) { said, err = r.write(of); return err }); err != nil {
		t.Fatal(err)
	}
	root, err := layout.ImageIndexFromPath(filepath.Join(r.Out, "images", of.folder))
	if err != nil {
		t.Fatal(err)
	}
	top, err := root.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	index, err := root.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if digest := top.Manifests[0].Digest; said.Digest != digest.String() || said.Name != of.name || said.Folder != "images/"+of.folder {
		t.Errorf("%+v was published, and %s written", said, digest)
	}
	return top.Manifests[0].Digest, image
}

// TestImage: the image has the program, what else is given, the list of what is in it, names of users and nothing else; no shell, no root,
// and labels that say what it was made from.
func TestImage(t *testing.T) {
	r := release(t, options(t))
	_, image := written(t, r, fake(t))
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c := config.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/fake"}) || len(c.Cmd) > 0 ||
		!config.Created.Equal(time.Date(2026, 11, 23, 4, 5, 6, 0, time.UTC)) {
		t.Errorf("%+v", config)
	}
	for label, want := range map[string]string{"version": r.Version, "revision": r.Revision, "created": r.Date,
		"source": "https://github.com/quorate/quorate", "licenses": "Apache-2.0"} {
		if got := c.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s is %q, want %q", label, got, want)
		}
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	files := entries(t, content)
	for _, name := range []string{"etc/group", "etc/nsswitch.conf", "etc/passwd", "fake", "note.json", "usr/share/spdx/fake.spdx.json"} {
		if _, there := files[name]; !there {
			t.Errorf("there is no %s", name)
		}
	}
	if len(files) != 6 || files["note.json"] != "{}" {
		t.Errorf("%d files", len(files))
	}
	beside, err := os.ReadFile(filepath.Join(r.Out, "images", "fake-linux-amd64.spdx.json"))
	if err != nil || len(beside) == 0 || string(beside) != files["usr/share/spdx/fake.spdx.json"] {
		t.Errorf("the list beside the image is not the one in it, %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(r.Out, ".work-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// entries are the files of a layer.
func entries(t *testing.T, content io.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	for archive := tar.NewReader(content); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			text, err := io.ReadAll(archive)
			if err != nil {
				t.Fatal(err)
			}
			files[h.Name] = string(text)
		}
	}
}

// TestImageIsTheSame: another folder gives the same digest; another version gives another.
func TestImageIsTheSame(t *testing.T) {
	first, _ := written(t, release(t, options(t)), fake(t))
	again, _ := written(t, release(t, options(t)), fake(t))
	if first != again {
		t.Errorf("%s, then %s", first, again)
	}
	o := options(t)
	o.Version = "v9.8.8"
	if other, _ := written(t, release(t, o), fake(t)); other == first {
		t.Error("another version does not give another image")
	}
}

// TestBound: an image that is too large is no image of a release.
func TestBound(t *testing.T) {
	of := fake(t)
	of.most = 1000
	r := release(t, options(t))
	if err := r.within(func() error { _, err := r.write(of); return err }); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("%v", err)
	}
}

// TestBuild: a program built from a copy of the sources elsewhere is the same byte by byte, has no path in it, and says what it was told.
func TestBuild(t *testing.T) {
	var built []string
	var text []byte
	for _, name := range []string{"first", "another-folder"} {
		root := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, content := range map[string]string{
			"go.mod":  "module example.com/tiny\n\ngo 1.26\n",
			"main.go": "package main\n\nvar version string\n\nfunc main() { println(version) }\n",
		} {
			if err := os.WriteFile(filepath.Join(root, file), []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		file := filepath.Join(root, "out", "tiny")
		if err := Build(t.Context(), root, ".", file, "amd64", map[string]string{"main.version": "v9.8.7"}); err != nil {
			t.Fatal(err)
		}
		digest, err := cache.SumFile(file)
		if err != nil {
			t.Fatal(err)
		}
		built = append(built, string(digest))
		if text, err = os.ReadFile(file); err != nil || strings.Contains(string(text), root) {
			t.Errorf("%s has its folder in it, %v", file, err)
		}
	}
	if built[0] != built[1] {
		t.Errorf("two builds differ: %v", built)
	}
	if !strings.Contains(string(text), "v9.8.7") {
		t.Error("the program was not told its version")
	}
}

// TestCached: an empty cache has the programs of no version.
func TestCached(t *testing.T) {
	o := options(t)
	o.Artifacts.Cache = t.TempDir()
	if versions, err := release(t, o).Cached(t.Context()); err != nil || len(versions) > 0 {
		t.Errorf("%v, %v", versions, err)
	}
}

// TestChecksums: sha256sum agrees, and sees a file that was changed.
func TestChecksums(t *testing.T) {
	folder := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(folder, "images", "a"), 0o755),
		os.WriteFile(filepath.Join(folder, "images", "a", "index.json"), []byte("{}"), 0o644),
		os.WriteFile(filepath.Join(folder, "quorate"), []byte("program"), 0o755), Checksums(folder), Checksums(folder)); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(folder, sumsFile))
	if lines := strings.Count(string(raw), "\n"); err != nil || lines != 2 || !strings.Contains(string(raw), "  images/a/index.json\n") {
		t.Errorf("%q, %v", raw, err)
	}
	check := func() error {
		cmd := exec.Command("sha256sum", "--check", "--strict", sumsFile)
		cmd.Dir = folder
		return cmd.Run()
	}
	if err := check(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "quorate"), []byte("another"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := check(); err == nil {
		t.Error("a changed file is not seen")
	}
}
