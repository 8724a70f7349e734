package embed

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// maxLog is the size in bytes at which a log is moved aside, to the same name with ".1" in place of an older one.
const maxLog = 10 << 20

// logFile is a log of limited size. Several goroutines may write.
type logFile struct {
	path string
	// follow are descriptors that point to the file, and are turned to the new one when it is moved aside.
	follow []int

	mu   sync.Mutex
	file *os.File
	size int64
}

func openLog(path string, follow ...int) (*logFile, error) {
	l := &logFile{path: path, follow: follow}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening a log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("opening a log: %w", err), f.Close())
	}
	for _, fd := range l.follow {
		if err := syscall.Dup3(int(f.Fd()), fd, 0); err != nil {
			return errors.Join(fmt.Errorf("turning descriptor %d to %s: %w", fd, l.path, err), f.Close())
		}
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write appends to the log. A log that cannot be moved aside grows on: better too long than lost. What cannot be written,
// for example on a full disk, is dropped: an error would end the reading of a child's output, and the child would stall.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > maxLog {
		if err := os.Rename(l.path, l.path+".1"); err == nil {
			old := l.file
			if err := l.open(); err == nil {
				_ = old.Close()
			}
		}
	}
	n, _ := l.file.Write(p)
	l.size += int64(n)
	return len(p), nil
}

// Close closes the file.
func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.file.Close()
}

// tail returns the last lines of a file, or why it cannot be read.
func tail(path string, lines int) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }()
	const most = 16 << 10
	if info, err := f.Stat(); err == nil && info.Size() > most {
		if _, err := f.Seek(-most, io.SeekEnd); err != nil {
			return err.Error()
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	all := bytes.Split(bytes.TrimRight(data, "\n"), []byte("\n"))
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return string(bytes.Join(all, []byte("\n")))
}
