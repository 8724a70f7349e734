package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func example(t *testing.T) Image {
	t.Helper()
	source := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte("#!program"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Image{
		Name: "registry.k8s.io/coredns/coredns:v1.14.2", Entrypoint: []string{"/usr/bin/program"},
		Files: []File{
			{Path: "/usr/bin/program", Source: source, Mode: 0o755},
			{Path: "/etc/passwd", Text: "root:x:0:0:::\n", Mode: 0o644},
		},
	}
}

func write(t *testing.T, i Image) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	if err := Write(file, t.TempDir(), i); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestWrite(t *testing.T) {
	i := example(t)
	file := write(t, i)
	tag, err := name.NewTag(i.Name)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != runtime.GOARCH || !slices.Equal(config.Config.Entrypoint, i.Entrypoint) {
		t.Errorf("config %+v", config)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	// The reader checks that the layer's content has the digest that the config gives.
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"etc/ drwxr-xr-x ", "etc/passwd -rw-r--r-- root:x:0:0:::\n", "tmp/ dtrwxrwxrwx ",
		"usr/ drwxr-xr-x ", "usr/bin/ drwxr-xr-x ", "usr/bin/program -rwxr-xr-x #!program",
	}
	if got := entries(t, content); !slices.Equal(got, want) {
		t.Errorf("layer has\n%q\nwant\n%q", got, want)
	}
	diffID, err := layers[0].DiffID()
	if err != nil || diffID != config.RootFS.DiffIDs[0] {
		t.Errorf("the layer is %v, the config says %v, %v", diffID, config.RootFS.DiffIDs, err)
	}
}

// TestWriteNames: an image is found by each of its names.
func TestWriteNames(t *testing.T) {
	i := example(t)
	i.Also = []string{"registry.k8s.io/coredns/coredns:v1.13.1"}
	file := write(t, i)
	var digests []string
	for _, n := range append(i.Also, i.Name) {
		tag, err := name.NewTag(n)
		if err != nil {
			t.Fatal(err)
		}
		image, err := tarball.ImageFromPath(file, &tag)
		if err != nil {
			t.Fatalf("%s: %v", n, err)
		}
		digest, err := image.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest.String())
	}
	if digests[0] != digests[1] {
		t.Errorf("two names, two images: %v", digests)
	}
}

func entries(t *testing.T, r io.Reader) []string {
	t.Helper()
	var all []string
	for archive := tar.NewReader(r); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != 0 || header.Uid != 0 || header.Gid != 0 {
			t.Errorf("%s is of %s and belongs to %d:%d", header.Name, header.ModTime, header.Uid, header.Gid)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(header.Name, " ", header.FileInfo().Mode(), " ", string(text)))
	}
}

func TestSameFilesGiveSameBytes(t *testing.T) {
	i := example(t)
	first := write(t, i)
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(i.Files[0].Source, later, later); err != nil {
		t.Fatal(err)
	}
	slices.Reverse(i.Files)
	second := write(t, i)
	a, errA := os.ReadFile(first)
	b, errB := os.ReadFile(second)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the order of files, or their times, reach the image (%v, %v)", errA, errB)
	}
}

func TestWriteLeavesOnlyTheImage(t *testing.T) {
	work := t.TempDir()
	if err := Write(filepath.Join(t.TempDir(), "image.tar"), work, example(t)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(work); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestBadName(t *testing.T) {
	i := example(t)
	i.Also = []string{"a b"}
	if err := Write(filepath.Join(t.TempDir(), "image.tar"), t.TempDir(), i); err == nil || !strings.Contains(err.Error(), `"a b"`) {
		t.Errorf("error is %v", err)
	}
}

func TestBadImages(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*Image)
		want   string
	}{
		{"name without tag", func(i *Image) { i.Name = "registry.k8s.io/pause" }, `image name "registry.k8s.io/pause"`},
		{"relative path", func(i *Image) { i.Files[0].Path = "usr/bin/x" }, `file "usr/bin/x": must be a clean absolute path`},
		{"path with dots", func(i *Image) { i.Files[0].Path = "/usr/../x" }, `file "/usr/../x": must be a clean absolute path`},
		{"the same file twice", func(i *Image) { i.Files[1].Path = i.Files[0].Path }, `file "/usr/bin/program": is given twice`},
		{"no source", func(i *Image) { i.Files[0].Source = "/nowhere" }, "/nowhere: no such file"},
	} {
		i := example(t)
		test.change(&i)
		err := Write(filepath.Join(t.TempDir(), "image.tar"), t.TempDir(), i)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.name, err, test.want)
		}
	}
}

// A program and what Program finds must run where nothing else is.
func TestProgramRunsAlone(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to change the root folder")
	}
	program, err := exec.LookPath("ls")
	if err != nil {
		t.Fatal(err)
	}
	files, err := Program(program)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 2 {
		t.Fatalf("%s links to libraries, and only %v was found", program, files)
	}
	root := t.TempDir()
	var layer bytes.Buffer
	zip := gzip.NewWriter(&layer)
	if err := writeTar(zip, files); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	unpack := exec.Command("tar", "-xz", "-C", root)
	unpack.Stdin = &layer
	if output, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	run := exec.Command(program, "/")
	run.Dir = "/"
	run.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	output, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "tmp") {
		t.Errorf("%v: %s", err, output)
	}
}

func TestProgramErrors(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Program(script); err == nil || !strings.Contains(err.Error(), "gathering what "+script+" needs") {
		t.Errorf("a script: %v", err)
	}
}

func TestFoldersIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ld.so.conf")
	if err := os.WriteFile(file, []byte("# a comment\ninclude /etc/ld.so.conf.d/*.conf\n/opt/lib\n  /usr/local/lib \n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, want := foldersIn(file), []string{"/opt/lib", "/usr/local/lib"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
