package cache

import (
	"archive/tar"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/quorate/quorate/internal/program/signature"
)

// Export says what a bundle is to hold.
type Export struct {
	Products   []Product
	Kubernetes []string           // the versions that they are for
	Key        ed25519.PrivateKey // signs the bundle; may be nil
}

// Export writes a bundle of products that are there. Equal products give equal bytes. Nothing is made: a product that is not there is an
// error, as is one that is damaged.
func (c *Cache) Export(ctx context.Context, to io.Writer, e Export) error {
	b := bundle{Format: bundleFormat, Platform: Platform(), Kubernetes: e.Kubernetes}
	folders := make([]string, len(e.Products))
	for i, p := range e.Products {
		folder, ok := c.locate(p)
		if !ok {
			return fmt.Errorf("exporting %s: it is not in the cache: `quorate artifacts build` makes it", p)
		}
		m, err := readManifest(folder)
		if err != nil {
			return fmt.Errorf("exporting %s: %w", p, err)
		}
		m.Imported = false
		b.Products, folders[i] = append(b.Products, m), folder
	}
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return fmt.Errorf("describing the bundle: %w", err)
	}
	compressed, err := zstd.NewWriter(to, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return fmt.Errorf("compressing the bundle: %w", err)
	}
	w := &exporter{cache: c, tar: tar.NewWriter(compressed), written: map[Digest]bool{}}
	err = w.text(bundleFile, text)
	if err == nil && e.Key != nil {
		err = w.text(signatureFile, signature.Sign(e.Key, text))
	}
	for i, p := range e.Products {
		if err == nil {
			err = w.product(ctx, p, folders[i], b.Products[i])
		}
	}
	if err == nil {
		err = w.tar.Close()
	}
	if err := errors.Join(err, compressed.Close()); err != nil {
		return fmt.Errorf("writing the bundle: %w", err)
	}
	return nil
}

// locate returns the folder of a product, without looking into it.
func (c *Cache) locate(p Product) (string, bool) {
	if c.prebuilt == "" {
		return find(c.root, p)
	}
	if folder, ok := find(c.prebuilt, p); ok {
		return folder, true
	}
	return newest(c.prebuilt, p)
}

type exporter struct {
	cache   *Cache
	tar     *tar.Writer
	written map[Digest]bool // contents
}

func (w *exporter) text(name string, text []byte) error {
	if err := w.tar.WriteHeader(header(name, int64(len(text)))); err != nil {
		return err
	}
	_, err := w.tar.Write(text)
	return err
}

func (w *exporter) product(ctx context.Context, p Product, folder string, m manifest) error {
	report := w.cache.reporter(p)
	for _, e := range m.Entries {
		if e.Mode[0] != '-' || w.written[e.Sum] {
			continue
		}
		report(Exporting, e.Path)
		if err := w.content(ctx, filepath.Join(folder, e.Path), e); err != nil {
			return fmt.Errorf("%s: %s: %w", p, e.Path, err)
		}
		w.written[e.Sum] = true
	}
	report(Exported, "")
	return nil
}

// content writes a file, which must be as the manifest says.
func (w *exporter) content(ctx context.Context, file string, e entry) error {
	source, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if info.Size() != e.Size {
		return fmt.Errorf("is damaged: it has %d bytes instead of %d", info.Size(), e.Size)
	}
	if err := w.tar.WriteHeader(header(contentPrefix+string(e.Sum), e.Size)); err != nil {
		return err
	}
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w.tar, hash), reading{Reader: source, each: ctx.Err}); err != nil {
		return err
	}
	if hex.EncodeToString(hash.Sum(nil)) != string(e.Sum) {
		return errors.New("is damaged: it has another content than when it was made")
	}
	return nil
}
