package artifacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
	"github.com/quorate/quorate/internal/program/signature"
)

// Export writes a bundle of all that `quorate artifacts build` makes for versions of Kubernetes, and of what EnsureProviders has made, and
// returns its size. To is a file, which is replaced when all of it is written, or oci://REGISTRY/REPOSITORY:TAG. KeyFile has the private
// key that signs it, in PEM; empty: it is not signed. Nothing is built: what is missing is an error.
func Export(ctx context.Context, o Options, versions []string, to, keyFile string) (cache.Bytes, error) {
	t, err := newTarget(versions, to, keyFile)
	if err != nil {
		return 0, err
	}
	c, err := o.open()
	if err != nil {
		return 0, err
	}
	if t.export.Products, err = bundled(ctx, c, versions); err != nil {
		return 0, err
	}
	optional, err := providers(ctx, c)
	if err != nil {
		return 0, err
	}
	for _, p := range optional {
		if c.Have(p) {
			t.export.Products = append(t.export.Products, p)
		}
	}
	return t.write(ctx, c)
}

// BuildBundle writes a bundle as Export does, and builds what is missing first. It leaves out what EnsureProviders makes: what is in the
// bundle follows from the versions alone, not from what else is in the cache.
func BuildBundle(ctx context.Context, o Options, versions []string, to, keyFile string) (cache.Bytes, error) {
	t, err := newTarget(versions, to, keyFile)
	if err != nil {
		return 0, err // before anything is built
	}
	for _, version := range versions {
		if _, err := Ensure(ctx, o, version); err != nil {
			return 0, err
		}
	}
	if _, err := EnsureEtcd(ctx, o); err != nil {
		return 0, err
	}
	c, err := o.open()
	if err != nil {
		return 0, err
	}
	if t.export.Products, err = bundled(ctx, c, versions); err != nil {
		return 0, err
	}
	return t.write(ctx, c)
}

// target is where a bundle is written to, and what it is made of.
type target struct {
	to, scheme string
	export     cache.Export
}

// newTarget checks where a bundle of versions is to be written to, and reads the key that signs it.
func newTarget(versions []string, to, keyFile string) (target, error) {
	t := target{to: to, export: cache.Export{Kubernetes: versions}}
	var err error
	if t.scheme, err = schemeOf(to, fileScheme, registryScheme); err != nil {
		return t, fmt.Errorf("exporting to %s: %w", redacted(to), err)
	}
	if keyFile != "" {
		t.export.Key, err = signature.ReadPrivateKey(keyFile)
	}
	return t, err
}

// write writes the bundle and returns its size.
func (t target) write(ctx context.Context, c *cache.Cache) (cache.Bytes, error) {
	write := func(w io.Writer) error { return c.Export(ctx, w, t.export) }
	if t.scheme == registryScheme {
		return push(ctx, t.to, write)
	}
	return replaceFile(t.to, write)
}

// replaceFile writes a file beside and renames it when it is complete and on the disk. It returns its size.
func replaceFile(file string, write func(io.Writer) error) (cache.Bytes, error) {
	temporary, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return 0, fmt.Errorf("making the bundle: %w", err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // it is not there any more when all went well
	if err := errors.Join(write(temporary), temporary.Chmod(0o644), temporary.Sync(), temporary.Close()); err != nil {
		return 0, err
	}
	info, err := os.Stat(temporary.Name())
	if err != nil {
		return 0, fmt.Errorf("measuring the bundle: %w", err)
	}
	if err := os.Rename(temporary.Name(), file); err != nil {
		return 0, fmt.Errorf("moving the bundle into place: %w", err)
	}
	return cache.Bytes(info.Size()), nil
}

// bundled returns the products of bundles for versions. Stores are not among them: they are as large as the images, of which each host
// makes them in seconds.
func bundled(ctx context.Context, c *cache.Cache, versions []string) ([]cache.Product, error) {
	var products []cache.Product
	seen := map[string]bool{}
	for _, version := range versions {
		m, err := newMaker(ctx, c, version)
		if err != nil {
			return nil, err
		}
		for _, p := range append(m.products(), append(m.etcdLeaves(), m.etcdMachine())...) {
			if !seen[p.Folder()] {
				seen[p.Folder()] = true
				products = append(products, p)
			}
		}
	}
	return products, nil
}

// importable returns the products that bundles may have.
func importable(ctx context.Context, c *cache.Cache) ([]cache.Product, error) {
	products, err := bundled(ctx, c, Versions())
	if err != nil {
		return nil, err
	}
	optional, err := providers(ctx, c)
	return append(products, optional...), err
}

// ImportBundle takes from a bundle what is not in the cache, and returns the names of the folders that are new there. Only products of the
// pins of this program are accepted, for this host's platform; all is compared with checksums. The error may come with what was imported
// before it.
func ImportBundle(ctx context.Context, o Options, b Bundle) ([]string, error) {
	accepted := cache.Import{Unverified: b.unverified}
	if b.KeyFile != "" {
		var err error
		if accepted.Key, err = signature.ReadPublicKey(b.KeyFile); err != nil {
			return nil, err
		}
	}
	c, err := o.openCache()
	if err != nil {
		return nil, err
	}
	if accepted.Known, err = importable(ctx, c); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	root, err := o.CacheFolder()
	if err != nil {
		return nil, err
	}
	from, err := b.open(ctx, cancel, filepath.Join(root, downloadsFolder), o.downloading)
	if err != nil {
		return nil, fmt.Errorf("opening the bundle %s: %w", redacted(b.From), err)
	}
	defer func() { _ = from.Close() }() // only read
	o.report(cache.Cached, "")
	imported, err := c.Import(ctx, from, accepted)
	if err != nil {
		return imported, fmt.Errorf("importing %s: %w", redacted(b.From), stalledOr(ctx, err))
	}
	return imported, nil
}

// downloading reports how much of a bundle was downloaded.
func (o Options) downloading(detail string) { o.report(cache.Downloading, detail) }

// report tells how far a bundle is.
func (o Options) report(phase cache.Phase, detail string) {
	if o.Progress != nil {
		o.Progress(Progress{Product: "bundle", Phase: phase, Detail: detail})
	}
}

// fromBundle imports the bundle of the options unless all products are there.
func (o Options) fromBundle(ctx context.Context, c *cache.Cache, products []cache.Product) error {
	if o.Bundle == nil || c.Prebuilt() {
		return nil
	}
	for _, p := range products {
		if !c.Have(p) {
			_, err := ImportBundle(ctx, o, *o.Bundle)
			return err
		}
	}
	return nil
}
