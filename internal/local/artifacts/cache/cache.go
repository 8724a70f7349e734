// Package cache keeps products: folders of files that are costly to make and depend on nothing but their inputs.
//
// A product lies in a folder whose name holds a digest of all its inputs, so a folder that is there is the right one or is
// damaged. It is made in a folder beside and renamed into place, so it is there whole or not at all. Its manifest holds the
// checksum of every file; Ensure compares before it hands the folder out. A lock per product keeps two processes from
// making the same product at once.
//
// The package does not know what products are, or how they are made: a Product brings its own Build.
package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// ErrDiskFull is wrapped by errors about too little disk space, before and while a product is made.
var ErrDiskFull = errors.New("not enough disk space")

// A Product is what can be had from a Cache.
type Product struct {
	Name    string // what it is: "etcd"
	Version string // its version, as people write it: "v3.6.16"
	Inputs  Digest // of everything this program decides: pinned sources, the way it is made
	Host    Digest // of everything the host supplies: toolchain, libraries; empty if HostErr says why it is unknown
	HostErr error  // while it is not nil, a product with the same Inputs made on any host is taken, but none is made
	Needs   []Need // free disk space without which Build is not begun
	Build   func(ctx context.Context, w Workplace) error
}

// A Workplace is where a product is made.
type Workplace struct {
	Out    string                             // an empty folder that becomes the product
	Work   string                             // an empty folder for what is needed meanwhile; on the same file system
	Report func(format string, values ...any) // tells what is being done, for people
}

// Folder returns the name of the folder in which p lies.
func (p Product) Folder() string {
	return p.prefix() + p.Host.short()
}

func (p Product) prefix() string {
	return fmt.Sprintf("%s-%s-%s-", p.Name, p.Version, p.Inputs.short())
}

// String returns the name and the version.
func (p Product) String() string { return p.Name + " " + p.Version }

// A Phase says how far a product is.
type Phase string

// The phases of a product. Cached, Built, Failed, Exported and Imported are last ones.
const (
	Checking Phase = "checking" // its checksums are compared
	Cached   Phase = "cached"   // it was there
	Damaged  Phase = "damaged"  // it was there and is made again; Detail says what differs
	Waiting  Phase = "waiting"  // another process makes it
	Building Phase = "building" // Detail says what is being done
	Built    Phase = "built"
	Failed   Phase = "failed" // Ensure returns the error

	Exporting Phase = "exporting" // Detail says which file
	Exported  Phase = "exported"
	// Downloading: Detail says how much of a bundle is there.
	Downloading Phase = "downloading"
	Importing   Phase = "importing" // Detail says which file
	Imported    Phase = "imported"
)

// Progress tells that something happened to a product.
type Progress struct {
	Product string        `json:"product"`
	Version string        `json:"version"`
	Phase   Phase         `json:"phase"`
	Detail  string        `json:"detail,omitempty"`
	Elapsed time.Duration `json:"elapsed"` // since Ensure began with this product
}

// A Cache is a folder of products. It may be used by several goroutines and several processes at once.
type Cache struct {
	root     string
	prebuilt string
	progress func(Progress)
	mutex    sync.Mutex // one call of progress at a time
}

// Folders of the cache that are no products.
const (
	buildingFolder = "building" // products that are being made, and what is left of interrupted runs
	locksFolder    = "locks"
	verifiedFolder = "verified" // what was compared with its checksums since the host booted
	usersFolder    = "users"    // links to the state folders of environments that take products from here
)

// Open returns the cache in the folder root, which is made if it is not there. If prebuilt is not empty it is a folder of
// the same layout, which is only read and from which everything is taken: nothing is made then.
// Progress may be nil; its calls do not overlap.
func Open(root, prebuilt string, progress func(Progress)) (*Cache, error) {
	if prebuilt != "" {
		if _, err := os.ReadDir(prebuilt); err != nil {
			return nil, fmt.Errorf("prebuilt artifacts: must be a folder that can be read: %w", err)
		}
	}
	for _, folder := range []string{buildingFolder, locksFolder, verifiedFolder, usersFolder} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return nil, fmt.Errorf("making the cache folder: %w", err)
		}
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	c := &Cache{root: root, prebuilt: prebuilt, progress: progress}
	c.sweep()
	return c, nil
}

// Ensure returns the folder of a product whose files agree with their checksums, and makes it if need be.
func (c *Cache) Ensure(ctx context.Context, p Product) (string, error) {
	report := c.reporter(p)
	folder, err := c.ensure(ctx, p, report)
	if err != nil {
		report(Failed, err.Error())
		return "", err
	}
	return folder, nil
}

func (c *Cache) ensure(ctx context.Context, p Product, report func(Phase, string)) (string, error) {
	if c.prebuilt != "" {
		return c.fromPrebuilt(p, report)
	}
	if folder, ok := find(c.root, p); ok {
		err := c.verify(folder, report)
		if err == nil {
			report(Cached, "")
			return folder, nil
		}
		if p.HostErr != nil {
			return "", fmt.Errorf("%s in %s is damaged (%w) and cannot be made again: %w", p, folder, err, p.HostErr)
		}
	}
	if p.HostErr != nil {
		return "", fmt.Errorf("%s is not in %s and cannot be made: %w", p, c.root, p.HostErr)
	}
	unlock, err := c.lock(ctx, p, report)
	if err != nil {
		return "", err
	}
	defer unlock()
	return c.make(ctx, p, report)
}

// make makes a product, unless another process has made it before the lock was had.
func (c *Cache) make(ctx context.Context, p Product, report func(Phase, string)) (string, error) {
	final := filepath.Join(c.root, p.Folder())
	if _, err := os.Lstat(final); err == nil {
		damage := c.verify(final, report)
		if damage == nil {
			report(Cached, "")
			return final, nil
		}
		report(Damaged, damage.Error())
		if err := c.discard(final); err != nil {
			return "", err
		}
	}
	if err := enough(p, c.root); err != nil {
		return "", err
	}
	report(Building, "")
	if err := c.build(ctx, p, final, report); err != nil {
		if outOfSpace(err) {
			return "", fmt.Errorf("building %s: %w (%s); nothing half-built is kept: %w", p, ErrDiskFull, shortage(p, c.root), err)
		}
		return "", fmt.Errorf("building %s: %w", p, err)
	}
	report(Built, "")
	return final, nil
}

// outOfSpace recognises the kernel's error, and its text in what a program has printed.
func outOfSpace(err error) bool {
	for _, full := range []syscall.Errno{unix.ENOSPC, unix.EDQUOT} {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) {
			return true
		}
	}
	return false
}

func (c *Cache) build(ctx context.Context, p Product, final string, report func(Phase, string)) error {
	temporary, err := os.MkdirTemp(filepath.Join(c.root, buildingFolder), p.Folder()+".")
	if err != nil {
		return fmt.Errorf("making a folder to build in: %w", err)
	}
	defer func() { _ = os.RemoveAll(temporary) }() // what cannot be removed now is removed by the next run
	w := Workplace{Out: filepath.Join(temporary, "out"), Work: filepath.Join(temporary, "work"),
		Report: func(format string, values ...any) { report(Building, fmt.Sprintf(format, values...)) }}
	for _, folder := range []string{w.Out, w.Work} {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return fmt.Errorf("making a folder to build in: %w", err)
		}
	}
	err = p.Build(ctx, w)
	// Whatever failed after the work was given up failed because of that.
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	manifest, err := seal(p, w.Out)
	if err != nil {
		return err
	}
	if err := os.Rename(w.Out, final); err != nil {
		return fmt.Errorf("moving the product into place: %w", err)
	}
	return c.remember(final, manifest)
}

// seal writes the manifest of what was built, and sees to it that all of it is on the disk.
func seal(p Product, out string) (manifest, error) {
	m, err := describe(p, out)
	if err != nil {
		return m, err
	}
	if err := m.write(out); err != nil {
		return m, err
	}
	return m, flush(out)
}

// discard takes a product out of the way at once, and then removes it. The caller holds its lock.
func (c *Cache) discard(folder string) error {
	aside, err := os.MkdirTemp(filepath.Join(c.root, buildingFolder), filepath.Base(folder)+".")
	if err != nil {
		return fmt.Errorf("discarding a product: %w", err)
	}
	if err := os.Rename(folder, filepath.Join(aside, "discarded")); err != nil {
		return fmt.Errorf("discarding a product: %w", err)
	}
	if err := os.RemoveAll(aside); err != nil {
		return fmt.Errorf("discarding a product: %w", err)
	}
	return nil
}

// lock returns once no other process makes p.
func (c *Cache) lock(ctx context.Context, p Product, report func(Phase, string)) (func(), error) {
	lock := flock.New(c.lockFile(p.Folder()))
	had, err := lock.TryLock()
	if err == nil && !had {
		report(Waiting, "another process makes it")
		_, err = lock.TryLockContext(ctx, 200*time.Millisecond)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting for the lock of %s: %w", p, err)
	}
	return func() { _ = lock.Unlock() }, nil
}

func (c *Cache) lockFile(folder string) string {
	return filepath.Join(c.root, locksFolder, folder+".lock")
}

// sweep removes what interrupted runs have left. A folder whose lock is held belongs to a process that is alive.
func (c *Cache) sweep() {
	entries, err := os.ReadDir(filepath.Join(c.root, buildingFolder))
	if err != nil {
		return // there is nothing to sweep, or Ensure will meet the same error and tell it
	}
	for _, entry := range entries {
		folder := entry.Name()
		if dot := strings.LastIndexByte(folder, '.'); dot > 0 {
			folder = folder[:dot]
		}
		lock := flock.New(c.lockFile(folder))
		if had, err := lock.TryLock(); err != nil || !had {
			continue
		}
		_ = os.RemoveAll(filepath.Join(c.root, buildingFolder, entry.Name()))
		_ = lock.Unlock()
	}
}

func (c *Cache) fromPrebuilt(p Product, report func(Phase, string)) (string, error) {
	folder, ok := find(c.prebuilt, p)
	if !ok {
		folder, ok = newest(c.prebuilt, p)
	}
	if !ok {
		return "", fmt.Errorf("the prebuilt artifacts in %s have no %s with the pins of this program (%s*); "+
			"use a folder made by the same version, or none to build here", c.prebuilt, p, p.prefix())
	}
	if err := c.verify(folder, report); err != nil {
		return "", fmt.Errorf("the prebuilt %s in %s is damaged: %w", p, folder, err)
	}
	report(Cached, "prebuilt")
	return folder, nil
}

// Have reports whether a product is there, without comparing checksums, and without making it.
func (c *Cache) Have(p Product) bool {
	if c.prebuilt != "" {
		_, ok := newest(c.prebuilt, p)
		return ok
	}
	_, ok := find(c.root, p)
	return ok
}

// find returns the folder of p in root. Where the host's part is unknown, the one that was made last will do; where none was made on this
// host, the one that was imported last.
func find(root string, p Product) (string, bool) {
	if p.HostErr != nil {
		return newest(root, p)
	}
	folder := filepath.Join(root, p.Folder())
	info, err := os.Stat(folder)
	if err == nil && info.IsDir() {
		return folder, true
	}
	return last(root, p, func(folder string) bool {
		m, err := readManifest(folder)
		return err == nil && m.Imported
	})
}

// newest returns the folder of p that was made last, on whatever host.
func newest(root string, p Product) (string, bool) {
	return last(root, p, func(string) bool { return true })
}

// last returns the folder of p that was made or imported last, of those that are accepted.
func last(root string, p Product, accepted func(folder string) bool) (string, bool) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return "", false
	}
	var best string
	var made time.Time
	for _, entry := range entries {
		if !entry.IsDir() || !strings.HasPrefix(entry.Name(), p.prefix()) {
			continue
		}
		folder := filepath.Join(root, entry.Name())
		info, err := os.Stat(filepath.Join(folder, manifestFile))
		if err == nil && accepted(folder) && (best == "" || info.ModTime().After(made)) {
			best, made = folder, info.ModTime()
		}
	}
	return best, best != ""
}

// reporter returns a function that reports about p, with the time since now.
func (c *Cache) reporter(p Product) func(Phase, string) {
	begun := time.Now()
	return func(phase Phase, detail string) {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.progress(Progress{Product: p.Name, Version: p.Version, Phase: phase, Detail: detail, Elapsed: time.Since(begun)})
	}
}

// Prebuilt reports whether everything is taken from a prebuilt folder and nothing is made.
func (c *Cache) Prebuilt() bool { return c.prebuilt != "" }
