package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// linkStore makes a containerd root out of a prepared one. Files that containerd never changes are hard links, which costs
// no space and next to no time; its databases are copies. On another file system everything is a copy.
func linkStore(from, to string) error {
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil || relative == "manifest.json" {
			return err
		}
		return linkEntry(path, filepath.Join(to, relative), e)
	})
	if err != nil {
		return fmt.Errorf("preparing the machine's images from %s: %w", from, err)
	}
	return nil
}

// linkEntry makes one file or folder of a containerd root out of the prepared one's.
func linkEntry(from, to string, e fs.DirEntry) error {
	if e.IsDir() {
		if err := copyEntry(from, to, e); err != nil {
			return err
		}
		return copyAttributes(from, to)
	}
	if strings.HasSuffix(from, ".db") {
		return copyEntry(from, to, e)
	}
	err := unix.Linkat(unix.AT_FDCWD, from, unix.AT_FDCWD, to, 0)
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EPERM) {
		return copyEntry(from, to, e)
	}
	return err
}

// copyAttributes copies what overlay file systems note on folders: that one hides what lies below it.
func copyAttributes(from, to string) error {
	const name = "trusted.overlay.opaque"
	value := make([]byte, 16)
	n, err := unix.Lgetxattr(from, name, value)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	if err != nil {
		return err
	}
	return unix.Lsetxattr(to, name, value[:n], 0)
}

// keepOwner gives a copy the owner of the original.
func keepOwner(path string, info fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return os.Lchown(path, int(st.Uid), int(st.Gid))
}
