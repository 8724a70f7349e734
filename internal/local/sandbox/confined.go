package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Root of a machine makes of its disk, of its logs and of the folder that it shares with the host whatever it likes. There may
// be links that lead to the host's files, pipes without a writer, devices. What the host does there, it does through an os.Root,
// and with plain files only.

// statusLimit is the most that is read of what a machine says of itself, in bytes; it keeps to some kilobytes, of
// which each may become six in JSON.
const statusLimit = 128 << 10

var errNoPlainFile = errors.New("it is no plain file")

// openPlain opens a file below a folder to read it. Neither a link that leads out of the folder nor anything but a plain file is opened.
func openPlain(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	// Before it is opened, as opening may have an effect; and afterwards, as it may have been exchanged.
	if err := checkPlain(root.Stat(name)); err != nil {
		return nil, err
	}
	file, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := checkPlain(file.Stat()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// checkPlain takes what a Stat returned, and says when that is not a plain file.
func checkPlain(info fs.FileInfo, err error) error {
	if err == nil && !info.Mode().IsRegular() {
		return errNoPlainFile
	}
	return err
}

// readPlain reads a file below a folder, if it has at most so many bytes.
func readPlain(dir, name string, limit int64) ([]byte, error) {
	file, err := openPlain(dir, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return data, err
}

// replaceFile writes a file below a folder in the place of whatever has its name there.
func replaceFile(dir, name string, data []byte, mode fs.FileMode) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// openLog opens one of the machine's logs to write at its end. What is no plain file is replaced.
func (f folder) openLog(name string) (*os.File, error) {
	root, err := os.OpenRoot(f.logs())
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Lstat(name); err == nil && !info.Mode().IsRegular() {
		if err := root.RemoveAll(name); err != nil {
			return nil, err
		}
	}
	return root.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o640)
}

// OpenFile opens a plain file below a machine's folder for reading, such as logs/kubelet.log or disk/var/log/pods/... It opens
// not what a link of the machine to the host's files leads to.
func (h *Host) OpenFile(machine, path string) (*os.File, error) {
	if err := checkName(machine); err != nil {
		return nil, err
	}
	file, err := openPlain(string(h.folder(machine)), path)
	if err != nil {
		return nil, fmt.Errorf("opening %s of machine %s: %w", path, machine, err)
	}
	return file, nil
}

// Glob finds files below a machine's folder by a pattern of path.Match, without following a link of the machine out of it.
func (h *Host) Glob(machine, pattern string) ([]string, error) {
	if err := checkName(machine); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(string(h.folder(machine)))
	if err != nil {
		return nil, fmt.Errorf("looking for %s of machine %s: %w", pattern, machine, err)
	}
	defer func() { _ = root.Close() }()
	return fs.Glob(root.FS(), pattern)
}

// has reports whether the machine's disk has a file, as the machine itself sees it.
func (f folder) has(path string) bool {
	root, err := os.OpenRoot(f.disk())
	if err != nil {
		return false
	}
	defer func() { _ = root.Close() }()
	info, err := root.Stat(filepath.Join(".", path))
	return err == nil && info.Mode().IsRegular()
}

// mostRead is how many bytes of a file of a machine are read.
const mostRead = 1 << 20

// read returns what a file of the machine's disk holds, as the machine itself sees it.
func (f folder) read(path string) ([]byte, error) {
	file, err := openPlain(f.disk(), filepath.Join(".", path))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, mostRead))
	return data, errors.Join(err, file.Close())
}
