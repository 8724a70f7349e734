package cache

import (
	"archive/tar"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Import says which bundles are accepted.
type Import struct {
	Known []Product         // a bundle with any other is refused; made on any host
	Key   ed25519.PublicKey // of the required signature; nil: none is
	// Unverified is called before a bundle is taken whose signature was not verified, with whether it has one; may be nil.
	Unverified func(signed bool)
}

// Import takes from a bundle the products that are not there, and returns the names of their folders. A product becomes visible when all of
// it agrees with its checksums. Products that are there whole stay, made here or imported. The error may come with what was imported
// before it; the next call goes on from there. Errors about the bundle itself wrap ErrBundle.
func (c *Cache) Import(ctx context.Context, from io.Reader, o Import) ([]string, error) {
	decompressed, err := zstd.NewReader(reading{Reader: from, each: ctx.Err}, zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return nil, fmt.Errorf("reading the bundle: %w", err)
	}
	defer decompressed.Close()
	contents := &contents{tar: tar.NewReader(decompressed)}
	b, err := contents.open(o)
	if err != nil {
		return nil, err
	}
	i := &importer{cache: c, wanted: map[Digest][]place{}, sizes: b.sizes()}
	defer i.close()
	for _, m := range slices.SortedFunc(slices.Values(b.Products), func(a, b manifest) int {
		return strings.Compare(a.product().Folder(), b.product().Folder()) // all take locks in one order
	}) {
		known, _ := m.match(o.Known)
		if err := i.want(ctx, known, m); err != nil {
			return nil, err
		}
	}
	if err := i.enough(); err != nil {
		return nil, err
	}
	err = i.run(ctx, contents)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil && outOfSpace(err) {
		err = fmt.Errorf("importing the bundle: %w: %w", ErrDiskFull, err)
	}
	return i.done, err
}

// contents reads a bundle.
type contents struct {
	tar  *tar.Reader
	next *tar.Header // was read already
}

// open reads and checks all that comes before the contents.
func (c *contents) open(o Import) (bundle, error) {
	text, err := c.text(bundleFile, bundleFileLimit)
	if err != nil {
		return bundle{}, err
	}
	if text == nil {
		return bundle{}, fmt.Errorf("%w: it does not begin with %s: is it one of `quorate artifacts export`?", ErrBundle, bundleFile)
	}
	signature, err := c.text(signatureFile, 1<<10)
	if err != nil {
		return bundle{}, err
	}
	if o.Key != nil {
		if err := checkSignature(o.Key, text, signature); err != nil {
			return bundle{}, err
		}
	}
	b, err := parseBundle(text, o.Known)
	if err == nil && o.Key == nil && o.Unverified != nil {
		o.Unverified(signature != nil)
	}
	return b, err
}

// text reads the next file if it has a name; nil if it has another.
func (c *contents) text(name string, limit int64) ([]byte, error) {
	h, err := c.header()
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil || h.Name != name {
		return nil, err
	}
	if c.next = nil; h.Size > limit {
		return nil, fmt.Errorf("%w: its %s has %d bytes: at most %d are accepted", ErrBundle, name, h.Size, limit)
	}
	text, err := io.ReadAll(c.tar)
	if err != nil {
		return nil, fmt.Errorf("reading %s of the bundle: %w", name, err)
	}
	return text, nil
}

// header returns the next file's, again until next is nil. io.EOF: there is none.
func (c *contents) header() (*tar.Header, error) {
	if c.next != nil {
		return c.next, nil
	}
	h, err := c.tar.Next()
	if errors.Is(err, io.EOF) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("%w: it is damaged or cut short: %w", ErrBundle, err)
	}
	c.next = h
	return h, nil
}

// importer takes products from one bundle. It holds their locks.
type importer struct {
	cache  *Cache
	staged []*stage
	wanted map[Digest][]place // where contents go
	sizes  map[Digest]int64   // of the contents that products list and that have not come
	done   []string
	unlock []func()
}

// stage is a product that is being imported.
type stage struct {
	manifest
	product   Product
	report    func(Phase, string)
	damaged   string // folder in the cache that the product replaces; empty: none
	temporary string // folder
	missing   int    // files
}

func (s *stage) out() string { return filepath.Join(s.temporary, "out") }

// place is a file of a product.
type place struct {
	stage *stage
	entry entry
}

func (p place) file() string { return filepath.Join(p.stage.out(), p.entry.Path) }

func (i *importer) close() {
	for _, s := range i.staged {
		_ = os.RemoveAll(s.temporary) // what cannot be removed now is removed by the next run
	}
	for _, unlock := range i.unlock {
		unlock()
	}
}

// want prepares a product, unless it is there and whole.
func (i *importer) want(ctx context.Context, known Product, m manifest) error {
	c, p := i.cache, m.product()
	report := c.reporter(p)
	if c.whole(known, report) {
		report(Cached, "")
		return nil
	}
	unlock, err := c.lock(ctx, p, report)
	if err != nil {
		return err
	}
	i.unlock = append(i.unlock, unlock)
	if c.whole(known, report) {
		report(Cached, "")
		return nil
	}
	if folder := filepath.Join(c.root, p.Folder()); c.verify(folder, report) == nil { // another toolchain of this host made it
		report(Cached, "")
		return c.markImported(folder)
	}
	s := &stage{manifest: m, product: p, report: report}
	s.damaged, _ = find(c.root, known)
	if s.temporary, err = os.MkdirTemp(filepath.Join(c.root, buildingFolder), p.Folder()+"."); err != nil {
		return fmt.Errorf("making a folder to import to: %w", err)
	}
	i.staged = append(i.staged, s)
	for _, e := range m.Entries {
		if e.Mode[0] == '-' {
			i.wanted[e.Sum] = append(i.wanted[e.Sum], place{stage: s, entry: e})
			s.missing++
		}
	}
	return nil
}

// whole reports whether a product is there, made here or imported, and agrees with its checksums.
func (c *Cache) whole(p Product, report func(Phase, string)) bool {
	folder, ok := find(c.root, p)
	return ok && c.verify(folder, report) == nil
}

// markImported has a product taken for its inputs, as if it had come in the bundle.
func (c *Cache) markImported(folder string) error {
	m, err := readManifest(folder)
	if err != nil {
		return err
	}
	m.Imported = true
	if err := m.write(folder); err != nil {
		return err
	}
	return c.remember(folder, m)
}

// enough returns an error that wraps ErrDiskFull if there is less room than the products need.
func (i *importer) enough() error {
	p := Product{Needs: []Need{{}}}
	for _, places := range i.wanted {
		p.Needs[0].Bytes += uint64(places[0].entry.Size) // the others are links
	}
	short, err := lacking(p, i.cache.root)
	if err == nil && short != "" {
		err = fmt.Errorf("%w to import the bundle: %s", ErrDiskFull, short)
	}
	return err
}

// run reads contents until nothing is wanted any more.
func (i *importer) run(ctx context.Context, from *contents) error {
	for _, s := range i.staged {
		if err := s.folders(); err != nil {
			return fmt.Errorf("importing %s: %w", s.product, err)
		}
	}
	for {
		if err := i.finish(); err != nil {
			return err
		}
		if len(i.staged) == len(i.done) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h, err := from.header()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%w: it is cut short: it lacks %s", ErrBundle, i.lacking())
		}
		if err != nil {
			return err
		}
		from.next = nil
		sum, err := i.listed(h)
		if err != nil {
			return err
		}
		if err := i.take(sum, from.tar); err != nil {
			return err
		}
	}
}

// listed returns the checksum of the content that comes next, which a product must list. What is skipped is decompressed too, and
// compressed zeros can be as many as they like.
func (i *importer) listed(h *tar.Header) (Digest, error) {
	text, ok := strings.CutPrefix(h.Name, contentPrefix)
	sum := Digest(text)
	if !ok || h.Typeflag != tar.TypeReg || !isDigest(sum) {
		return "", fmt.Errorf("%w: it has %q, which does not belong there", ErrBundle, h.Name)
	}
	if size, listed := i.sizes[sum]; len(i.wanted[sum]) == 0 && (!listed || size != h.Size) {
		return "", fmt.Errorf("%w: it has %q with %d bytes, which no product lists, or twice", ErrBundle, h.Name, h.Size)
	}
	delete(i.sizes, sum)
	return sum, nil
}

// lacking names a file that has not come.
func (i *importer) lacking() string {
	for _, s := range i.staged {
		for _, e := range s.Entries {
			if len(i.wanted[e.Sum]) > 0 && s.missing > 0 {
				return e.Path + " of " + s.product.String()
			}
		}
	}
	return "a file"
}

// folders makes the folders and links of a product.
func (s *stage) folders() error {
	s.report(Importing, "")
	if err := os.Mkdir(s.out(), 0o755); err != nil {
		return err
	}
	for _, e := range s.Entries {
		var err error
		switch e.Mode[0] {
		case 'd':
			err = os.Mkdir(filepath.Join(s.out(), e.Path), 0o700)
		case 'L':
			err = os.Symlink(e.Link, filepath.Join(s.out(), e.Path))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// take writes one content to all places that want it.
func (i *importer) take(sum Digest, from io.Reader) error {
	places := i.wanted[sum]
	if len(places) == 0 {
		return nil // of a product that is there
	}
	delete(i.wanted, sum)
	first := places[0]
	first.stage.report(Importing, first.entry.Path)
	if err := first.write(from); err != nil {
		return fmt.Errorf("importing %s of %s: %w", first.entry.Path, first.stage.product, err)
	}
	for n, p := range places {
		if n > 0 {
			if err := p.copy(first); err != nil {
				return fmt.Errorf("importing %s of %s: %w", p.entry.Path, p.stage.product, err)
			}
		}
		p.stage.missing--
	}
	return nil
}

// write makes the file of a place, which must have the checksum of its entry.
func (p place) write(from io.Reader) error {
	_, mode, _ := parseMode(p.entry.Mode)
	file, err := os.OpenFile(p.file(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	hash := sha256.New()
	size, err := io.Copy(io.MultiWriter(file, hash), io.LimitReader(from, p.entry.Size+1))
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: it is cut short: %w", ErrBundle, err)
	}
	if err := errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return err
	}
	if sum := hex.EncodeToString(hash.Sum(nil)); size != p.entry.Size || sum != string(p.entry.Sum) {
		return fmt.Errorf("%w: it has the checksum %s instead of %s", ErrBundle, sum, p.entry.Sum)
	}
	return nil
}

// copy makes a file of the same content as another; a hard link where it can.
func (p place) copy(other place) error {
	if p.entry.Mode == other.entry.Mode && os.Link(other.file(), p.file()) == nil {
		return nil
	}
	source, err := os.Open(other.file())
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	return p.write(source)
}

// finish moves the products into place that have all their files.
func (i *importer) finish() error {
	for _, s := range i.staged {
		if s.missing > 0 || slices.Contains(i.done, s.product.Folder()) {
			continue
		}
		if err := i.cache.adopt(s); err != nil {
			return fmt.Errorf("importing %s: %w", s.product, err)
		}
		s.report(Imported, "")
		i.done = append(i.done, s.product.Folder())
	}
	return nil
}

// adopt moves an imported product into place. Its manifest says that it was imported.
func (c *Cache) adopt(s *stage) error {
	for _, e := range slices.Backward(s.Entries) {
		if kind, mode, _ := parseMode(e.Mode); kind == 'd' {
			if err := os.Chmod(filepath.Join(s.out(), e.Path), mode); err != nil {
				return err
			}
		}
	}
	m := s.manifest
	m.Imported = true
	if err := m.write(s.out()); err != nil {
		return err
	}
	if err := flush(s.out()); err != nil {
		return err
	}
	final := filepath.Join(c.root, s.product.Folder())
	if _, err := os.Lstat(final); err == nil { // a damaged one, or want would have found it
		if err := c.discard(final); err != nil {
			return err
		}
	}
	if err := os.Rename(s.out(), final); err != nil {
		return fmt.Errorf("moving the product into place: %w", err)
	}
	if err := c.remember(final, m); err != nil || s.damaged == "" || s.damaged == final {
		return err
	}
	_, err := c.remove(filepath.Base(s.damaged), false)
	return err
}
