package artifacts

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// etcdReleases are the leaves that machines of etcd have in their cache: an etcd cluster goes from one minor version to the next, and
// back.
var etcdReleases = []string{"etcd-3.7", "etcd", "etcd-3.5"}

// EtcdVersions returns the versions of etcd that machines of etcd come with, without a leading v, the newest first.
func EtcdVersions() ([]string, error) {
	var versions []string
	for _, folder := range etcdReleases {
		version, err := etcdVersion(folder)
		if err != nil {
			return nil, err
		}
		versions = append(versions, version)
	}
	return versions, nil
}

// StackedEtcd returns the version of etcd that control plane machines of a version of Kubernetes come with, without a leading v.
func StackedEtcd(kubernetes string) (string, error) { return etcdVersion(etcdOf(kubernetes)) }

// etcdVersion returns the version of etcd in a folder of the pins, without a leading v.
func etcdVersion(folder string) (string, error) {
	p, err := readPin(folder)
	if err != nil {
		return "", err
	}
	version, err := p.version(etcdModule)
	if err != nil {
		return "", fmt.Errorf("%s: %w", folder, err)
	}
	return strings.TrimPrefix(version, "v"), nil
}

// EnsureEtcd returns what machines have that run nothing but etcd, and builds what is missing. It may be called by several processes
// at once.
func EnsureEtcd(ctx context.Context, o Options) (*Set, error) {
	c, err := o.open()
	if err != nil {
		return nil, err
	}
	m, err := newMaker(ctx, c, DefaultVersion)
	if err != nil {
		return nil, err
	}
	if err := o.fromBundle(ctx, c, append(m.etcdLeaves(), m.etcdMachine())); err != nil {
		return nil, err
	}
	if err := m.ensure(ctx, m.etcdLeaves()); err != nil {
		return nil, err
	}
	folder, err := c.Ensure(ctx, m.etcdMachine())
	if err != nil {
		return nil, err
	}
	return &Set{Etcd: folder}, nil
}

// etcdLeaves are the products that machines of etcd are made of, the one that takes longest first.
func (m *maker) etcdLeaves() []cache.Product {
	var leaves []cache.Product
	for _, name := range append(slices.Clone(etcdReleases), "etcdadm") {
		leaves = append(leaves, m.built[name])
	}
	return leaves
}

// etcdMachine is what machines have that run nothing but etcd: etcdadm, and its cache with an archive of each version.
func (m *maker) etcdMachine() cache.Product {
	p := cache.Product{
		Name: "etcd-machine", Version: m.built["etcdadm"].Version, Inputs: cache.Sum("etcd-machine", "2", fmt.Sprint(etcdReleases)),
		Needs: []cache.Need{{Bytes: 64 << 20}},
	}
	for _, leaf := range m.etcdLeaves() {
		p = dependOn(p, leaf)
	}
	p.Build = func(_ context.Context, w cache.Workplace) error {
		program := filepath.Join(w.Out, "bin", "etcdadm")
		if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
			return fmt.Errorf("making a folder: %w", err)
		}
		if err := link(filepath.Join(m.folders["etcdadm"], "etcdadm"), program); err != nil {
			return err
		}
		for _, leaf := range etcdReleases {
			w.Report("packing %s", leaf)
			if err := packEtcd(m.folders[leaf], filepath.Join(w.Out, "cache"), m.built[leaf].Version); err != nil {
				return err
			}
		}
		return nil
	}
	return p
}

// packEtcd writes an archive of etcd where etcdadm looks for it. Its name says amd64 on every host: etcdadm knows no other.
func packEtcd(programs, cacheFolder, version string) error {
	top := "etcd-" + version + "-linux-amd64"
	archive := filepath.Join(cacheFolder, "etcd", version, top+".tar.gz")
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return fmt.Errorf("making the cache of etcdadm: %w", err)
	}
	file, err := os.OpenFile(archive, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return fmt.Errorf("packing etcd %s: %w", version, err)
	}
	compressed, err := gzip.NewWriterLevel(file, gzip.BestSpeed)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	packed := tar.NewWriter(compressed)
	for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
		if err == nil {
			err = addProgram(packed, filepath.Join(programs, name), path.Join(top, name))
		}
	}
	if err := errors.Join(err, packed.Close(), compressed.Close(), file.Close()); err != nil {
		return fmt.Errorf("packing etcd %s: %w", version, err)
	}
	return nil
}

func addProgram(to *tar.Writer, file, name string) error {
	source, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if err := to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: info.Size(),
		Format: tar.FormatUSTAR}); err != nil {
		return err
	}
	_, err = io.Copy(to, source)
	return err
}
