package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/program/atomicfile"
)

// A Digest stands for content: 64 hexadecimal digits, or empty for none.
type Digest string

// Sum returns the digest of a list of strings. Lists that differ in any way have different digests.
func Sum(parts ...string) Digest {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%d:%s,", len(part), part)
	}
	return Digest(hex.EncodeToString(hash.Sum(nil)))
}

// SumFile returns the SHA-256 of a file's content.
func SumFile(path string) (Digest, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return Digest(hex.EncodeToString(hash.Sum(nil))), nil
}

// short is enough of a digest to tell the products of one cache apart.
func (d Digest) short() string {
	if len(d) < 12 {
		return "none"
	}
	return string(d[:12])
}

// manifestFile lies in the folder of every product.
const manifestFile = "manifest.json"

// manifest describes a product as it was when it was made.
type manifest struct {
	Product string  `json:"product"`
	Version string  `json:"version"`
	Inputs  Digest  `json:"inputs"`
	Host    Digest  `json:"host"`
	Entries []entry `json:"entries"` // in the order of their paths
	// Imported says that it came in a bundle: it counts as made from its inputs, whatever this host would make it with.
	Imported bool `json:"imported,omitempty"`
}

// entry is one file, folder or link of a product.
type entry struct {
	Path string `json:"path"`
	Mode string `json:"mode"`           // as fs.FileMode prints it
	Size int64  `json:"size,omitempty"` // of files
	Sum  Digest `json:"sum,omitempty"`  // of files
	Link string `json:"link,omitempty"` // of symbolic links
}

// describe reads a product's folder, all but the manifest.
func describe(p Product, folder string) (manifest, error) {
	entries, _, err := list(folder)
	if err != nil {
		return manifest{}, err
	}
	var group errgroup.Group
	group.SetLimit(runtime.NumCPU())
	for i := range entries {
		e := &entries[i]
		if e.Mode[0] != '-' {
			continue
		}
		group.Go(func() (err error) {
			e.Sum, err = SumFile(filepath.Join(folder, e.Path))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return manifest{}, fmt.Errorf("computing checksums: %w", err)
	}
	return manifest{Product: p.Name, Version: p.Version, Inputs: p.Inputs, Host: p.Host, Entries: entries}, nil
}

// list returns what lies in a folder, without checksums, and a digest of what changes when anybody writes there.
func list(folder string) ([]entry, Digest, error) {
	var entries []entry
	var stats []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == folder || path == filepath.Join(folder, manifestFile) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		e, stat, err := entryOf(path, relative, info)
		entries, stats = append(entries, e), append(stats, stat)
		return err
	})
	if err != nil {
		return nil, "", fmt.Errorf("listing %s: %w", folder, err)
	}
	return entries, Sum(stats...), nil
}

// entryOf is the entry of one file, link or folder, and what changes when anybody writes there.
func entryOf(path, relative string, info fs.FileInfo) (e entry, stat string, err error) {
	e = entry{Path: relative, Mode: info.Mode().String()}
	stat = fmt.Sprint(relative, " ", e.Mode)
	switch {
	case info.Mode().IsRegular():
		e.Size = info.Size()
		// The change time says more, but it also changes when a file gets another hard link.
		stat = fmt.Sprint(stat, " ", e.Size, " ", info.ModTime().UnixNano(), " ", inode(info))
	case info.Mode()&fs.ModeSymlink != 0:
		e.Link, err = os.Readlink(path)
		stat = fmt.Sprint(stat, " ", e.Link)
	}
	return e, stat, err
}

func inode(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}

func (m manifest) write(folder string) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	if err := atomicfile.WriteCached(filepath.Join(folder, manifestFile), append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the manifest: %w", err)
	}
	return nil
}

func readManifest(folder string) (manifest, error) {
	var m manifest
	text, err := os.ReadFile(filepath.Join(folder, manifestFile))
	if err != nil {
		return m, fmt.Errorf("reading the manifest: %w", err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, fmt.Errorf("reading the manifest: %w", err)
	}
	return m, nil
}

// difference says how what is there differs from what the manifest lists; empty if it does not.
func (m manifest) difference(there []entry) string {
	wanted := map[string]entry{}
	for _, e := range m.Entries {
		wanted[e.Path] = e
	}
	for _, e := range there {
		w, ok := wanted[e.Path]
		delete(wanted, e.Path)
		if !ok {
			return e.Path + " does not belong there"
		}
		if text := w.difference(e); text != "" {
			return text
		}
	}
	for _, e := range m.Entries {
		if _, missing := wanted[e.Path]; missing {
			return e.Path + " is missing"
		}
	}
	return ""
}

// difference says how a file of the same path differs from the entry; empty if it does not.
func (e entry) difference(there entry) string {
	switch {
	case e.Mode != there.Mode:
		return fmt.Sprintf("%s has mode %s instead of %s", e.Path, there.Mode, e.Mode)
	case e.Size != there.Size:
		return fmt.Sprintf("%s has %d bytes instead of %d", e.Path, there.Size, e.Size)
	case e != there:
		return e.Path + " has another content than when it was made"
	}
	return ""
}

// verify compares a product with its manifest: by checksum once after every boot of the host and after every change of a
// file's size, time or inode, and else by these. The error says what is damaged.
func (c *Cache) verify(folder string, report func(Phase, string)) error {
	m, err := readManifest(folder)
	if err != nil {
		return err
	}
	stamp, err := c.stamp(folder, m)
	if err != nil {
		return err
	}
	if known, err := os.ReadFile(c.stampFile(folder)); err == nil && string(known) == stamp {
		return nil
	}
	report(Checking, "")
	there, err := describe(Product{}, folder)
	if err != nil {
		return err
	}
	if difference := m.difference(there.Entries); difference != "" {
		return errors.New(difference)
	}
	return c.remember(folder, m)
}

// remember notes that a product agrees with its checksums.
func (c *Cache) remember(folder string, m manifest) error {
	stamp, err := c.stamp(folder, m)
	if err != nil {
		return err
	}
	if err := atomicfile.WriteCached(c.stampFile(folder), []byte(stamp), 0o644); err != nil {
		return fmt.Errorf("noting that a product is verified: %w", err)
	}
	return nil
}

// stamp changes with the host's boot, the manifest, and anything that a write to a file of the product changes.
func (c *Cache) stamp(folder string, m manifest) (string, error) {
	_, stats, err := list(folder)
	if err != nil {
		return "", err
	}
	sums, err := json.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("digesting the manifest: %w", err)
	}
	// Without a boot id every boot counts as the same one, and changes are still noticed.
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(Sum(strings.TrimSpace(string(boot)), string(sums), string(stats))), nil
}

// stampFile lies in this cache even for a product in somebody else's, where we may not write.
func (c *Cache) stampFile(folder string) string {
	return filepath.Join(c.root, verifiedFolder, filepath.Base(folder)+"-"+Sum(folder).short())
}

// flush makes sure that a product's content is on the disk before its name is: after a power failure a renamed folder
// could otherwise hold empty files.
func flush(folder string) error {
	handle, err := os.Open(folder)
	if err != nil {
		return fmt.Errorf("flushing the product to disk: %w", err)
	}
	defer func() { _ = handle.Close() }() // only opened to name the file system
	if err := unix.Syncfs(int(handle.Fd())); err != nil {
		return fmt.Errorf("flushing the product to disk: %w", err)
	}
	return nil
}
