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
	if want := []string{"etcd-v3.6.16-linux-amd64/etcd #!etcd", "etcd-v3.6.16-linux-amd64/etcdctl #!etcdctl"}; !slices.Equal(got, want) {
		t.Errorf("the archive has %q, want %q", got, want)
	}
}

// TestEtcdVersions: from 3.5.26 on members of 3.5 can be replaced by those of 3.6 in one roll.
func TestEtcdVersions(t *testing.T) {
	got, err := EtcdVersions()
	if want := []string{"3.6.16", "3.5.35"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("versions %v, %v; want %v", got, err, want)
	}
}
