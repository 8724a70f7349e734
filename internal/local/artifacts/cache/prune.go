package cache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gofrs/flock"
)

// AddUser notes that the environment of a state folder takes products from the cache, so that Prune can be told which.
// The note is a link to the folder, and ends with it.
func (c *Cache) AddUser(state string) error {
	err := os.Symlink(state, filepath.Join(c.root, usersFolder, Sum(state).short()))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("noting who uses the cache: %w", err)
	}
	return nil
}

// Users returns the state folders of AddUser that are still there, and forgets the others.
func (c *Cache) Users() ([]string, error) {
	links, err := os.ReadDir(filepath.Join(c.root, usersFolder))
	if err != nil {
		return nil, fmt.Errorf("reading who uses the cache: %w", err)
	}
	var users []string
	for _, entry := range links {
		link := filepath.Join(c.root, usersFolder, entry.Name())
		state, err := os.Readlink(link)
		if err != nil {
			return nil, fmt.Errorf("reading who uses the cache: %w", err)
		}
		if _, err := os.Lstat(state); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(link) // the next call tries again
			continue
		}
		users = append(users, state)
	}
	return users, nil
}

// Removed is a product that Prune removed.
type Removed struct {
	Folder string `json:"folder"` // its name in the cache
	Bytes  Bytes  `json:"bytes"`  // of disk space that went with it; not what is linked from elsewhere
}

// Prune removes the products of this cache but those that are wanted, those whose folder stands in a path in use, and
// those that another process makes at the moment. What is no product stays. A dry run only tells what would go. The
// error comes with what was removed before it.
func (c *Cache) Prune(wanted []Product, used []string, dryRun bool) ([]Removed, error) {
	superseded, err := c.superseded(wanted, used)
	if err != nil {
		return nil, err
	}
	// Measured before the first goes: what several of them link to is freed with the last.
	sizes, err := c.freed(superseded)
	if err != nil {
		return nil, err
	}
	var removed []Removed
	for i, folder := range superseded {
		gone, err := c.remove(folder, dryRun)
		if err != nil {
			return removed, err
		}
		if gone {
			removed = append(removed, Removed{Folder: folder, Bytes: sizes[i]})
		}
	}
	return removed, nil
}

// superseded returns the names of the products that are neither wanted nor used.
func (c *Cache) superseded(wanted []Product, used []string) ([]string, error) {
	entries, err := os.ReadDir(c.root)
	if err != nil {
		return nil, fmt.Errorf("listing the cache: %w", err)
	}
	var names []string
	for _, entry := range entries {
		name := entry.Name()
		keep := func(p Product) bool {
			return p.isIn(name) || strings.HasPrefix(name, p.prefix()) && c.isImported(name)
		}
		if c.isProduct(name) && !slices.ContainsFunc(wanted, keep) && !standsIn(name, used) {
			names = append(names, name)
		}
	}
	return names, nil
}

// isIn reports whether Ensure would take p from a folder of this name.
func (p Product) isIn(name string) bool {
	if p.HostErr != nil {
		return strings.HasPrefix(name, p.prefix())
	}
	return name == p.Folder()
}

// isProduct reports whether a folder is what its name says, and nothing that somebody put into the cache.
func (c *Cache) isProduct(name string) bool {
	m, err := readManifest(filepath.Join(c.root, name))
	return err == nil && name == Product{Name: m.Product, Version: m.Version, Inputs: m.Inputs, Host: m.Host}.Folder()
}

// isImported reports whether a product came in a bundle.
func (c *Cache) isImported(name string) bool {
	m, err := readManifest(filepath.Join(c.root, name))
	return err == nil && m.Imported
}

// standsIn reports whether one of the paths leads to a folder or through it. Only its name is compared: somebody may know
// the cache by another path.
func standsIn(name string, paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool {
		return slices.Contains(strings.Split(path, string(filepath.Separator)), name)
	})
}

// freed measures products: each file counts for the product that has the last link to it.
func (c *Cache) freed(names []string) ([]Bytes, error) {
	sizes := make([]Bytes, len(names))
	links := map[[2]uint64]int{}
	for i, name := range names {
		err := filepath.WalkDir(filepath.Join(c.root, name), func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			stat, ok := info.Sys().(*syscall.Stat_t)
			if !ok {
				return nil
			}
			file := [2]uint64{stat.Dev, stat.Ino}
			if links[file]++; d.IsDir() || links[file] == int(stat.Nlink) {
				sizes[i] += Bytes(stat.Blocks) * 512
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("measuring %s: %w", name, err)
		}
	}
	return sizes, nil
}

// remove removes a product, unless another process has it locked. Its lock stays: who waits for it has the file open.
func (c *Cache) remove(name string, dryRun bool) (bool, error) {
	lock := flock.New(c.lockFile(name))
	if had, err := lock.TryLock(); err != nil || !had {
		return false, err
	}
	defer func() { _ = lock.Unlock() }()
	if dryRun {
		return true, nil
	}
	folder := filepath.Join(c.root, name)
	if err := c.discard(folder); err != nil {
		return false, err
	}
	if err := os.Remove(c.stampFile(folder)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return true, fmt.Errorf("forgetting that a product was verified: %w", err)
	}
	return true, nil
}
