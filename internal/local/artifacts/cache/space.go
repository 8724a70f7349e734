package cache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A Need is free disk space that making a product takes.
type Need struct {
	Folder string // on whose file system; empty for the cache's own; it need not be there yet
	Bytes  uint64
}

// enough returns an error that wraps ErrDiskFull if the file systems have less room than p needs.
func enough(p Product, root string) error {
	short, err := lacking(p, root)
	if err != nil {
		return err
	}
	if short != "" {
		return fmt.Errorf("%w to build %s: %s", ErrDiskFull, p, short)
	}
	return nil
}

// shortage says how much room p needs and how much there is.
func shortage(p Product, root string) string {
	all, err := rooms(p, root)
	if err != nil {
		return err.Error()
	}
	var texts []string
	for _, r := range all {
		texts = append(texts, r.String())
	}
	return strings.Join(texts, "; ")
}

func lacking(p Product, root string) (string, error) {
	all, err := rooms(p, root)
	if err != nil {
		return "", err
	}
	var texts []string
	for _, r := range all {
		if r.available < r.needed {
			texts = append(texts, r.String())
		}
	}
	return strings.Join(texts, "; "), nil
}

// room is one file system's.
type room struct {
	folder            string
	needed, available uint64
}

func (r room) String() string {
	return fmt.Sprintf("%s needs %s and has %s", r.folder, Bytes(r.needed), Bytes(r.available))
}

// rooms adds up the needs of p for each file system.
func rooms(p Product, root string) ([]room, error) {
	var all []room
	place := map[uint64]int{}
	for _, need := range p.Needs {
		folder := need.Folder
		if folder == "" {
			folder = root
		}
		existing, err := existing(folder)
		if err != nil {
			return nil, err
		}
		var stat unix.Stat_t
		if err := unix.Stat(existing, &stat); err != nil {
			return nil, fmt.Errorf("looking at the file system of %s: %w", folder, err)
		}
		at, known := place[stat.Dev]
		if !known {
			available, err := Available(existing)
			if err != nil {
				return nil, err
			}
			at = len(all)
			place[stat.Dev] = at
			all = append(all, room{folder: folder, available: available})
		}
		all[at].needed += need.Bytes
	}
	return all, nil
}

// existing returns the nearest folder upwards that is there.
func existing(folder string) (string, error) {
	for {
		_, err := os.Stat(folder)
		if !errors.Is(err, os.ErrNotExist) || folder == filepath.Dir(folder) {
			return folder, err
		}
		folder = filepath.Dir(folder)
	}
}

// Available returns how many bytes this user may still write to the file system of a folder, or of the folder
// that is nearest upwards if it is not there.
func Available(folder string) (uint64, error) {
	folder, err := existing(folder)
	if err != nil {
		return 0, fmt.Errorf("looking for free disk space: %w", err)
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(folder, &stat); err != nil {
		return 0, fmt.Errorf("looking for free disk space in %s: %w", folder, err)
	}
	return stat.Bavail * uint64(stat.Bsize), nil
}

// Bytes is a number of bytes that prints as people read it: 1.5 GiB.
type Bytes uint64

// String rounds to what people need.
func (b Bytes) String() string {
	switch {
	case b >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(b)/(1<<30))
	case b >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(b)/(1<<20))
	default:
		return fmt.Sprintf("%d bytes", uint64(b))
	}
}
