package artifacts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quorate/quorate/internal/core/version"
)

// TestPackEtcd: etcdadm strips one folder off the names in an archive that it finds under this path.
func TestPackEtcd(t *testing.T) {
	programs, cache := t.TempDir(), t.TempDir()
	for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte("#!"+name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := packEtcd(programs, cache, "v3.6.16"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(cache, "etcd/v3.6.16/etcd-v3.6.16-linux-amd64.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for archive := tar.NewReader(unpacked); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil || header.Mode != 0o755 {
			t.Errorf("%s: mode %o, %v", header.Name, header.Mode, err)
		}
		got = append(got, header.Name+" "+string(content))
	}
	if want := []string{"etcd-v3.6.16-linux-amd64/etcd #!etcd", "etcd-v3.6.16-linux-amd64/etcdctl #!etcdctl",
		"etcd-v3.6.16-linux-amd64/etcdutl #!etcdutl"}; !slices.Equal(got, want) {
		t.Errorf("the archive has %q, want %q", got, want)
	}
}

// TestEtcdVersions: the pinned versions are the newest first and one minor version apart, so that members of each can be
// replaced by those of the next in one roll. From 3.5 that is possible since 3.5.26. etcd and etcdctl of a pin have the same version.
func TestEtcdVersions(t *testing.T) {
	texts, err := EtcdVersions()
	if err != nil || len(texts) < 2 {
		t.Fatalf("versions %v, %v: at least two are needed", texts, err)
	}
	var pinned []version.Version
	for i, text := range texts {
		v, err := version.Parse("v" + text)
		if err != nil {
			t.Fatal(err)
		}
		if v.Major == 3 && v.Minor == 5 && v.Patch < 26 {
			t.Errorf("%s cannot be beside 3.6: at least 3.5.26 is needed", text)
		}
		p, err := readPin(etcdReleases[i])
		if err != nil {
			t.Fatal(err)
		}
		if ctl, err := p.version("go.etcd.io/etcd/etcdctl/v3"); err != nil || ctl != "v"+text {
			t.Errorf("etcdctl is %s, %v, and etcd %s", ctl, err, text)
		}
		pinned = append(pinned, v)
	}
	for i, newer := range pinned[:len(pinned)-1] {
		if older := pinned[i+1]; newer.Major != older.Major || newer.Minor != older.Minor+1 {
			t.Errorf("%s comes before %s: must be the minor version after it", texts[i], texts[i+1])
		}
	}
}
