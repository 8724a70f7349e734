package upgrader

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/program/atomicfile"
)

// stageFiles stages the user's files that the node does not have as they are to be, and returns how many these are.
func (n *node) stageFiles() (int, error) {
	staged := 0
	for i, f := range n.wanted.Files {
		did, err := n.stageFile(f, filepath.Join(n.image, steps.FilesDir, steps.FileKey(i)))
		if err != nil {
			return 0, err
		}
		if did {
			staged++
		}
	}
	return staged, nil
}

// stageFile stages a file whose content was handed over in another one, and reports whether the node has it another way. Nothing of the
// content is ever printed.
func (n *node) stageFile(f steps.File, source string) (bool, error) {
	content, err := os.ReadFile(source)
	if err != nil {
		return false, fmt.Errorf("reading what file %s is to hold: %w", f.Path, err)
	}
	uid, gid, err := ownerOf(f.Owner)
	if err != nil {
		return false, fmt.Errorf("finding the owner of file %s: %w", f.Path, err)
	}
	mode, err := modeOf(f.Permissions)
	if err != nil {
		return false, fmt.Errorf("file %s: %w", f.Path, err)
	}
	held, err := n.holds()
	if err != nil {
		return false, err
	}
	target, err := targetOf(f.Path, held)
	if err != nil {
		return false, err
	}
	there, err := isFile(target, content, mode, uid, gid)
	if err != nil {
		return false, err
	}
	staged := filepath.Join(n.stage(), target)
	// This step may be repeated, and a secret have held something else before.
	if err := removeFile(staged); err != nil || there {
		return false, err
	}
	if err := writeOwned(staged, content, mode, uid, gid); err != nil {
		return false, fmt.Errorf("staging file %s: %w", f.Path, err)
	}
	n.say("file %s will be written", f.Path)
	return true, nil
}

// holds returns what says why a file of the user's is not written: it lies where something of the node's own is, wherever that is on this
// node.
func (n *node) holds() (func(path string) string, error) {
	if n.held != nil {
		return n.held, nil
	}
	f, err := n.look()
	if err != nil {
		return nil, err
	}
	return func(path string) string {
		switch {
		case steps.HeldFile(path) != "":
			return steps.HeldFile(path)
		case steps.Below(path, f.certificates):
			return "certificates are renewed there"
		case f.etcd.DataDir != "" && steps.Below(path, f.etcd.DataDir):
			return "it is etcd's"
		}
		return ""
	}, nil
}

// targetOf is the file that a path leads to. Links are followed, as cloud-init did when it wrote the file at the first boot, but not those
// that other users of the node may have made. A file that an upgrade leaves to others is refused.
func targetOf(path string, held func(string) string) (string, error) {
	if held == nil {
		held = steps.HeldFile
	}
	target, err := resolve(path)
	if err != nil {
		return "", err
	}
	if _, gone := os.Lstat(target); errors.Is(gone, fs.ErrNotExist) {
		if _, dangling := os.Readlink(path); dangling == nil {
			return "", fmt.Errorf("file %s is not written: it is a link to nothing", path)
		}
	}
	for _, name := range []string{path, target} {
		if why := held(name); why != "" {
			return "", fmt.Errorf("file %s is not written: %s", path, why)
		}
	}
	return target, nil
}

// isFile reports whether a file is there as it is to be. What is no file is an error.
func isFile(path string, content []byte, mode os.FileMode, uid, gid int) (bool, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking at file %s: %w", path, err)
	}
	if !info.Mode().IsRegular() {
		return false, fmt.Errorf("file %s is not written: what the node has there is no file", path)
	}
	hasUID, hasGID := owners(info)
	if info.Mode().Perm() != mode || hasUID != uid || hasGID != gid || info.Size() != int64(len(content)) {
		return false, nil
	}
	return hasContent(path, content)
}

// hasContent reports whether a file holds exactly that.
func hasContent(path string, content []byte) (bool, error) {
	f, err := openFile(path)
	if err != nil {
		return false, err
	}
	has, err := io.ReadAll(io.LimitReader(f, int64(len(content))+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("reading file %s: %w", path, err)
	}
	return bytes.Equal(has, content), nil
}

// writeOwned writes a file with its mode and owner, which no other user can read before it has them.
func writeOwned(path string, content []byte, mode os.FileMode, uid, gid int) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := atomicfile.Write(path, content, 0o600); err != nil {
		return err
	}
	return errors.Join(os.Chown(path, uid, gid), os.Chmod(path, mode))
}

// owners are the numbers of a file's user and group.
func owners(info os.FileInfo) (uid, gid int) {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Uid), int(stat.Gid)
	}
	return 0, 0
}

// ownerOf returns the numbers of a user, or user:group, by names or numbers. What is not said is root.
func ownerOf(owner string) (uid, gid int, err error) {
	name, group, _ := strings.Cut(owner, ":")
	uid, err = number(name, func() (string, error) {
		u, err := user.Lookup(name)
		if err != nil {
			return "", err
		}
		return u.Uid, nil
	})
	if err != nil {
		return 0, 0, err
	}
	gid, err = number(group, func() (string, error) {
		g, err := user.LookupGroup(group)
		if err != nil {
			return "", err
		}
		return g.Gid, nil
	})
	return uid, gid, err
}

// number is a number as it is written, or what a name is looked up to be. Of no name it is that of root.
func number(name string, lookup func() (string, error)) (int, error) {
	if name == "" || name == "root" {
		return 0, nil
	}
	if n, err := strconv.Atoi(name); err == nil {
		return n, nil
	}
	found, err := lookup()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(found)
}

// modeOf reads permissions.
func modeOf(permissions string) (os.FileMode, error) {
	if permissions == "" {
		return 0o644, nil
	}
	mode, err := strconv.ParseUint(permissions, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("permissions %q: they must be octal, and at most 0777", permissions)
	}
	return os.FileMode(mode), nil
}
