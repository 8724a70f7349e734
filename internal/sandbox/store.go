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
		target := filepath.Join(to, relative)
		if e.IsDir() {
			if err := copyEntry(path, target, e); err != nil {
				return err
			}
			return copyAttributes(path, target)
		}
		if strings.HasSuffix(relative, ".db") {
			return copyEntry(path, target, e)
		}
		err = unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, target, 0)
		if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EMLINK) || errors.Is(err, unix.EPERM) {
			return copyEntry(path, target, e)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("preparing the machine's images from %s: %w", from, err)
	}
	return nil
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
