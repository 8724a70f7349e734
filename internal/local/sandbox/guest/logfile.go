package guest

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// logLimit is the size in bytes at which a log becomes the older part (.1) and a new one begins: a machine's
// logs take at most twice as much each.
const logLimit = 8 << 20

// logFile is a log of limited size. It is safe for concurrent use.
type logFile struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64
}

func openLog(path string, limit int64) (*logFile, error) {
	l := &logFile{path: path, limit: limit}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("opening the log %s: %w", l.path, err)
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("opening the log %s: %w", l.path, errors.Join(err, f.Close()))
	}
	l.file, l.size = f, info.Size()
	return nil
}

// Write appends p, which is never split over two files.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size > 0 && l.size+int64(len(p)) > l.limit {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}

func (l *logFile) rotate() error {
	if err := os.Rename(l.path, l.path+".1"); err != nil {
		return fmt.Errorf("putting the log %s aside: %w", l.path, err)
	}
	old := l.file
	if err := l.open(); err != nil {
		return err
	}
	return old.Close()
}
