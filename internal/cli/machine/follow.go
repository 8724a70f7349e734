package machine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// logFile is a log that is written by somebody else, who may begin a new file at any time.
type logFile struct {
	// current finds the newest file, or none yet.
	current func() (string, error)
	// open opens it; nil: as any file of the host.
	open func(path string) (*os.File, error)
	// plain makes a line readable; nil: it is as it is.
	plain func(line []byte) []byte
}

func (l logFile) opened(path string) (*os.File, error) {
	if l.open == nil {
		return os.Open(path)
	}
	return l.open(path)
}

// tail is the last lines.
func (l logFile) tail(ctx context.Context, lines int) (string, error) {
	var text strings.Builder
	err := l.copyTo(ctx, &text, lines, false)
	return text.String(), err
}

// copyTo writes the last lines (a negative number: all), and, if it follows, those that come until ctx ends.
func (l logFile) copyTo(ctx context.Context, out io.Writer, lines int, follow bool) error {
	path, err := l.current()
	if err != nil && (!follow || !errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	r := &follower{logFile: l, out: out}
	defer r.close()
	if err == nil {
		if err := r.begin(path, lines); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	return r.follow(ctx)
}

// follow writes what comes, also in newer files, until ctx ends.
func (r *follower) follow(ctx context.Context) error {
	again := time.NewTicker(250 * time.Millisecond)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
		if err := r.more(); err != nil {
			return err
		}
	}
}

type follower struct {
	logFile
	out  io.Writer
	path string
	file *os.File
	// rest is the beginning of a line whose end was not written yet.
	rest []byte
}

// begin begins with the last lines of a file.
func (r *follower) begin(path string, lines int) error {
	r.close()
	f, err := r.opened(path)
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	r.file, r.path, r.rest = f, path, nil
	if lines >= 0 {
		if err := skipTo(f, lines); err != nil {
			return fmt.Errorf("reading %s: %w", path, err)
		}
	}
	return r.read()
}

// more writes what came since, and goes on to a newer file.
func (r *follower) more() error {
	if r.file != nil {
		if err := r.read(); err != nil {
			return err
		}
	}
	path, err := r.current()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if path != r.path || r.replaced() {
		return r.begin(path, -1)
	}
	return nil
}

// replaced reports whether the path is another file now, or the file was begun again.
func (r *follower) replaced() bool {
	mine, err := r.file.Stat()
	if err != nil {
		return true
	}
	newest, err := r.opened(r.path)
	if err != nil {
		return false
	}
	there, err := newest.Stat()
	if err = errors.Join(err, newest.Close()); err != nil {
		return false
	}
	at, err := r.file.Seek(0, io.SeekCurrent)
	return err != nil || !os.SameFile(mine, there) || there.Size() < at
}

// read writes all whole lines from here on.
func (r *follower) read() error {
	in := bufio.NewReader(r.file)
	for {
		part, err := in.ReadBytes('\n')
		r.rest = append(r.rest, part...)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", r.path, err)
		}
		line := r.rest
		if r.plain != nil {
			line = r.plain(line)
		}
		// Who reads it reads it on a terminal, on which a machine's programs have nothing to say.
		if _, err := io.WriteString(r.out, plaintext.Visible(string(line))); err != nil {
			return err
		}
		r.rest = nil
	}
}

func (r *follower) close() {
	if r.file != nil {
		_ = r.file.Close()
	}
}

// skipTo seeks to the beginning of the last lines, reading backwards.
func skipTo(f *os.File, lines int) error {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil || lines == 0 {
		return err
	}
	block := make([]byte, 64<<10)
	found := 0
	for end > 0 {
		size := min(end, int64(len(block)))
		if _, err := f.ReadAt(block[:size], end-size); err != nil {
			return err
		}
		part := block[:size]
		for i := bytes.LastIndexByte(part, '\n'); i >= 0; i = bytes.LastIndexByte(part[:i], '\n') {
			if found++; found > lines {
				_, err := f.Seek(end-size+int64(i)+1, io.SeekStart)
				return err
			}
		}
		end -= size
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// containerLine takes the container runtime's prefix (time, stream, F or P) from a line.
func containerLine(line []byte) []byte {
	parts := bytes.SplitN(line, []byte(" "), 4)
	if len(parts) < 4 {
		return line
	}
	if string(parts[2]) == "P" { // the line goes on in the next
		return bytes.TrimSuffix(slices.Clone(parts[3]), []byte("\n"))
	}
	return parts[3]
}
