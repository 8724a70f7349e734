package upgrader

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Files of the user's may lie in folders that other users of the node write to. The upgrader is root: it must not be led elsewhere by a
// link, and must not write into a file, that such a user has put there. So links count only where only root could have made them, and
// files are made again in folders that are held open.

// mostLinks is how many links a path may lead through, as for the kernel.
const mostLinks = 40

// resolve returns the path that a path leads to, without links. What does not exist has none. A link in a folder that other users may write
// to is an error.
func resolve(path string) (string, error) {
	rest, done, trusted := split(path), "/", true
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." { // only in what a link says
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, name)
		safe, err := onlyRoots(done, next)
		if err != nil {
			return "", fmt.Errorf("finding %s: %w", path, err)
		}
		trusted = trusted && safe
		link, err := os.Readlink(next)
		if err != nil { // it is no link, or does not exist: who opens it will see
			done = next
			continue
		}
		if links++; !trusted || links > mostLinks {
			return "", fmt.Errorf("finding %s: %w", path, &othersLink{next, link})
		}
		rest = append(split(link), rest...)
		if filepath.IsAbs(link) {
			done = "/"
		}
	}
	return done, nil
}

// othersLink says that a path leads through a link that other users of the node may have made.
type othersLink struct{ link, to string }

func (e *othersLink) Error() string {
	return fmt.Sprintf("%s is a link to %s, which other users of the node may have made", e.link, e.to)
}

// isOthers reports whether nothing was done to a file because another user has something else in its place: what was there is not there any
// more.
func isOthers(err error) bool {
	_, link := errors.AsType[*othersLink](err)
	return link || errors.Is(err, unix.EISDIR)
}

// split are the names that a path consists of.
func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

// onlyRoots reports whether only root, and the user that this program runs as, may make or replace an entry of a folder. In a folder
// with the sticky bit that is so of what is theirs. In a folder that does not exist no user can.
func onlyRoots(dir, entry string) (bool, error) {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	shared := isShared(info)
	if !shared || !isRoots(info) || info.Mode()&fs.ModeSticky == 0 {
		return isRoots(info) && !shared, nil
	}
	made, err := os.Lstat(entry)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && isRoots(made), err
}

// isShared reports whether users other than the owner, and root's group, may write to a folder.
func isShared(info fs.FileInfo) bool {
	_, gid := owners(info)
	return info.Mode()&0o020 != 0 && gid != 0 || info.Mode()&0o002 != 0
}

// isRoots reports whether something belongs to root, or to the user that this program runs as.
func isRoots(info fs.FileInfo) bool {
	uid, _ := owners(info)
	return uid == 0 || uid == os.Geteuid()
}

// folder is a folder of the node that is held open: whatever becomes of its path, what is done in it is done in it.
type folder struct{ *os.File }

// openFolder opens a folder, and makes it if asked to.
func openFolder(dir string, make bool) (folder, error) {
	path, err := resolve(dir)
	if err != nil {
		return folder{}, err
	}
	f, err := os.OpenFile("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return folder{}, err
	}
	for _, name := range split(path) {
		next, err := enterFolder(f, name, make)
		_ = f.Close() // nothing was written
		if err != nil {
			return folder{}, fmt.Errorf("opening %s: %w", dir, err)
		}
		f = next
	}
	return folder{f}, nil
}

// enterFolder opens a folder in another one. A link is none.
func enterFolder(f *os.File, name string, make bool) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	path := filepath.Join(f.Name(), name)
	fd, err := unix.Openat(int(f.Fd()), name, flags, 0)
	if make && errors.Is(err, fs.ErrNotExist) {
		if err := unix.Mkdirat(int(f.Fd()), name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, &fs.PathError{Op: "mkdir", Path: path, Err: err}
		}
		fd, err = unix.Openat(int(f.Fd()), name, flags, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// within opens the folder of a file, calls do with it and the file's name in it, and closes it.
func within(file string, make bool, do func(f folder, name string) error) error {
	f, err := openFolder(filepath.Dir(file), make)
	if err != nil {
		return err
	}
	return errors.Join(do(f, filepath.Base(file)), f.Close())
}

// openFile opens a file of the node for reading. What is no file is an error, and is not waited for.
func openFile(path string) (in *os.File, err error) {
	real, err := resolve(path)
	if err != nil {
		return nil, err
	}
	err = within(real, false, func(f folder, name string) error {
		fd, err := unix.Openat(int(f.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: path, Err: err}
		}
		in = os.NewFile(uintptr(fd), path)
		info, err := in.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("opening %s: it is no file", path)
		}
		if err != nil {
			err = errors.Join(err, in.Close())
		}
		return err
	})
	return in, err
}

// make makes a new file, which only root may read, under a name that begins with prefix, and returns that.
func (f folder) make(prefix string) (*os.File, string, error) {
	for {
		name := prefix + strconv.FormatUint(uint64(rand.Uint32()), 10)
		fd, err := unix.Openat(int(f.Fd()), name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		path := filepath.Join(f.Name(), name)
		if err != nil {
			return nil, "", &fs.PathError{Op: "create", Path: path, Err: err}
		}
		return os.NewFile(uintptr(fd), path), name, nil
	}
}

// rename gives a file another name, which others may have had.
func (f folder) rename(from, to string) error {
	if err := unix.Renameat(int(f.Fd()), from, int(f.Fd()), to); err != nil {
		return &os.LinkError{Op: "rename", Old: filepath.Join(f.Name(), from), New: to, Err: err}
	}
	return nil
}

// link gives a file of another folder, which is root's, a second name here.
func (f folder) link(source, name string) error {
	return unix.Linkat(unix.AT_FDCWD, source, int(f.Fd()), name, 0)
}

// remove removes a file, or a link, if it is there.
func (f folder) remove(name string) error {
	if err := unix.Unlinkat(int(f.Fd()), name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "remove", Path: filepath.Join(f.Name(), name), Err: err}
	}
	return nil
}
