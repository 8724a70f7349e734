package upgrader

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/program/atomicfile"
)

// beside is the name under which a new file waits in the folder of the one that it replaces. The kubelet reads no manifests that begin with
// a dot.
func beside(target string) string {
	return filepath.Join(filepath.Dir(target), "."+filepath.Base(target)+".quorate-upgrade")
}

// copyFile copies a file whole or not at all, with its permissions, and makes sure that it outlives a crash of the node. The copy is
// root's.
func copyFile(source, target string) error { return copyTo(source, target, false) }

// copyOwned is copyFile for files of the node, with their owners.
func copyOwned(source, target string) error { return copyTo(source, target, true) }

func copyTo(source, target string, owned bool) error {
	open := os.Open
	if owned {
		open = openFile
	}
	in, err := open(source)
	if err != nil {
		return fmt.Errorf("copying %s: %w", source, err)
	}
	defer func() { _ = in.Close() }()
	err = within(target, true, func(f folder, name string) error {
		out, part, err := f.make(partPrefix(target))
		if err != nil {
			return err
		}
		if err = errors.Join(fill(out, in, owned), out.Close()); err == nil {
			err = f.rename(part, name)
		}
		if err != nil {
			err = errors.Join(err, f.remove(part))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("copying %s to %s: %w", source, target, err)
	}
	return nil
}

// partPrefix is how the name of a file begins that is written, and not whole yet.
func partPrefix(target string) string { return filepath.Base(beside(target)) + "." }

// fill makes a new file a copy of another one, and makes sure that it outlives a crash of the node.
func fill(out, in *os.File, owned bool) error {
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	if owned {
		if err := out.Chown(owners(info)); err != nil {
			return err
		}
	}
	if err := out.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	return out.Sync()
}

// same reports whether two files have the same content. What is not there, or is no file, is like none.
func same(a, b string) (bool, error) {
	first, errA := os.Stat(a)
	second, errB := os.Stat(b)
	if errors.Is(errA, fs.ErrNotExist) || errors.Is(errB, fs.ErrNotExist) {
		return false, nil
	}
	if err := errors.Join(errA, errB); err != nil {
		return false, fmt.Errorf("comparing files: %w", err)
	}
	if first.Size() != second.Size() || !first.Mode().IsRegular() || !second.Mode().IsRegular() {
		return false, nil
	}
	sumA, errA := checksum(a)
	sumB, errB := checksum(b)
	return bytes.Equal(sumA, sumB), errors.Join(errA, errB)
}

func checksum(path string) ([]byte, error) {
	// What is no file may never end, or have the opening wait.
	f, err := os.OpenFile(path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("computing a checksum: %w", err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("computing the checksum of %s: it is no file", path), err)
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, fmt.Errorf("computing the checksum of %s: %w", path, err)
	}
	return sum.Sum(nil), nil
}

// mirrored are the files below a folder that mirrors the node, as paths of the node. A missing folder has none.
func mirrored(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		// What begins with a dot is a copy that was cut off.
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(d.Name(), ".") {
			files = append(files, strings.TrimPrefix(path, dir))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	return files, nil
}

// prepare puts each staged file beside the one that it will replace.
func (l layout) prepare() error {
	files, err := mirrored(l.stage())
	if err != nil {
		return err
	}
	for _, target := range files {
		if err := linkOrCopy(filepath.Join(l.stage(), target), beside(target)); err != nil {
			return err
		}
	}
	return nil
}

// linkOrCopy gives a file a second name, or copies it where that lies on another file system. Nothing writes into either afterwards.
func linkOrCopy(source, target string) error {
	linked := false
	err := within(target, true, func(f folder, name string) error {
		if err := f.remove(name); err != nil {
			return err
		}
		linked = f.link(source, name) == nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("placing %s: %w", target, err)
	}
	if linked {
		return nil
	}
	return copyOwned(source, target)
}

// removeFile removes a file, if it is there.
func removeFile(path string) error {
	err := within(path, false, folder.remove)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// discard takes away what waits beside other files.
func (l layout) discard() error {
	files, err := mirrored(l.stage())
	if err != nil {
		return err
	}
	for _, target := range files {
		err := within(target, false, func(f folder, name string) error { return f.discard(target) })
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !isOthers(err) {
			return fmt.Errorf("removing what waits beside %s: %w", target, err)
		}
	}
	return nil
}

// discard takes away what waits beside a file of the folder, and what was to become either and was cut off. Another user's folder of such a
// name stays.
func (f folder) discard(target string) error {
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	waits := filepath.Base(beside(target))
	for _, name := range names {
		if name != waits && !strings.HasPrefix(name, partPrefix(target)) && !strings.HasPrefix(name, partPrefix(beside(target))) {
			continue
		}
		if err := f.remove(name); err != nil && !errors.Is(err, unix.EISDIR) {
			return err
		}
	}
	return nil
}

// replace renames each staged file into its place. What a cut left undone is done again.
func (l layout) replace() error {
	files, err := mirrored(l.stage())
	if err != nil {
		return err
	}
	for _, target := range files {
		err := within(target, false, func(f folder, name string) error { return f.rename(filepath.Base(beside(target)), name) })
		if errors.Is(err, fs.ErrNotExist) {
			err = l.install(filepath.Join(l.stage(), target), target)
		}
		if err != nil {
			return fmt.Errorf("replacing %s: %w", target, err)
		}
	}
	return syncFolders(files)
}

// alike reports whether two files have the same content, owner and permissions. A file that is not there is like none.
func alike(a, b string) (bool, error) {
	equal, err := same(a, b)
	if err != nil || !equal {
		return false, err
	}
	first, errA := os.Stat(a)
	second, errB := os.Stat(b)
	if err := errors.Join(errA, errB); err != nil {
		return false, fmt.Errorf("comparing files: %w", err)
	}
	uidA, gidA := owners(first)
	uidB, gidB := owners(second)
	return first.Mode().Perm() == second.Mode().Perm() && uidA == uidB && gidA == gidB, nil
}

// install has a copy of source at target.
func (l layout) install(source, target string) error {
	equal, err := alike(source, target)
	if err != nil || equal {
		return err
	}
	return copyOwned(source, target)
}

// restore puts the backup back, and takes away what there was not before. Files that are to stay have their new content again. What another
// user of the node has put in the place of a file, or of its folder, stays: the way back must not end there.
func (l layout) restore(stay ...string) error {
	staged, err := mirrored(l.stage())
	if err != nil {
		return err
	}
	kept, err := mirrored(l.saved())
	if err != nil {
		return err
	}
	for _, target := range kept {
		source := filepath.Join(l.saved(), target)
		if slices.Contains(stay, target) && slices.Contains(staged, target) {
			source = filepath.Join(l.stage(), target)
		}
		if err := l.install(source, target); err != nil && !isOthers(err) {
			return fmt.Errorf("putting back %s: %w", target, err)
		}
	}
	absent, err := l.wereAbsent()
	if err != nil {
		return err
	}
	added := slices.DeleteFunc(append(staged, absent...), func(target string) bool { return slices.Contains(kept, target) })
	for _, target := range added {
		if err := removeFile(target); err != nil && !isOthers(err) {
			return fmt.Errorf("putting back %s: %w", target, err)
		}
	}
	if err := l.discard(); err != nil {
		return err
	}
	return syncFolders(kept)
}

// syncFolders makes sure that renames outlive a crash of the node.
func syncFolders(files []string) error {
	done := map[string]bool{}
	for _, file := range files {
		dir := filepath.Dir(file)
		if done[dir] {
			continue
		}
		done[dir] = true
		f, err := openFolder(dir, false)
		if isOthers(err) {
			continue // nothing was written there
		}
		if err != nil {
			return fmt.Errorf("syncing %s: %w", dir, err)
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return fmt.Errorf("syncing %s: %w", dir, err)
		}
	}
	return nil
}

// noteAbsent notes files that the node does not have, and kubeadm may write after the swap.
func (l layout) noteAbsent(files []string) error {
	if err := os.MkdirAll(l.work(), 0o700); err != nil {
		return fmt.Errorf("noting what the node does not have: %w", err)
	}
	return atomicfile.Write(l.absent(), []byte(strings.Join(files, "\n")), 0o600)
}

// wereAbsent are the files that were noted so; without a note there are none.
func (l layout) wereAbsent() ([]string, error) {
	data, err := os.ReadFile(l.absent())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading what the node did not have: %w", err)
	}
	return strings.Fields(string(data)), nil
}
