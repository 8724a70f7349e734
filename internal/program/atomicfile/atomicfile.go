// Package atomicfile replaces files whole or not at all: a reader sees the old or the new content, never a part. It
// does not know what is in them, and does not order writers: the last one wins. docs/architecture.md says why no library does it.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Write replaces the file at path, or makes it, with permissions as they are given, whatever the umask. After a crash
// of the host the file has the old or the new content too.
func Write(path string, data []byte, mode fs.FileMode) error {
	// Without the sync a power cut may leave an empty file under the final name.
	return replace(path, data, mode, (*os.File).Sync)
}

// WriteCached replaces the file as Write does, and returns sooner: after a crash of the host it may be empty. It is for
// what is written again then, and what is written often.
func WriteCached(path string, data []byte, mode fs.FileMode) error {
	return replace(path, data, mode, func(*os.File) error { return nil })
}

// Remove removes a file, if it is there, and what writers of it left that were killed. No process may write it any more.
func Remove(path string) error {
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	for _, entry := range entries {
		random, left := strings.CutPrefix(entry.Name(), "."+filepath.Base(path)+".")
		if _, err := strconv.ParseUint(random, 10, 64); !left || err != nil {
			continue
		}
		if err := os.Remove(filepath.Join(filepath.Dir(path), entry.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing what was written for %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func replace(path string, data []byte, mode fs.FileMode, sync func(*os.File) error) error {
	// Only a rename within one folder is sure to be atomic. The name begins with a dot, so that listings of the folder hide it.
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = sync(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
