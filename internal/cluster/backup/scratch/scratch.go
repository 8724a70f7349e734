// Package scratch proves that a snapshot of etcd can be restored, by restoring it. That is done in a child process of this program, with a
// limit of memory and of disk, so that neither a damaged nor a hostile snapshot takes the program along. It returns what the restored data
// is, and does not know what it should be.
package scratch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/quorate/quorate/internal/core/backup"
	"github.com/quorate/quorate/internal/program/plaintext"
)

const (
	// niceness is the child's priority: all else goes first.
	niceness = 10
	// logs are what etcd's write-ahead log takes on the disk, whatever the snapshot's size.
	logs = 72 << 20
	// mostOutput is how much of a child's output is read.
	mostOutput = 64 << 10
)

// Limits bound one restore.
type Limits struct {
	// Memory is the most memory in bytes.
	Memory int64 `json:"memory"`
	// Disk is the most disk in bytes that the scratch folder may take. A restore needs twice the snapshot's size and 72 MiB.
	Disk int64 `json:"disk"`
}

// DefaultLimits are enough for a snapshot of 4 GiB with a million keys.
var DefaultLimits = Limits{Memory: 768 << 20, Disk: 2*(4<<30) + logs}

// Most returns the largest snapshot in bytes that the limits allow.
func (l Limits) Most() int64 { return max(0, (l.Disk-logs)/2) }

// Scratch is one restore that is under way. Write takes the snapshot's bytes. Wait must be called.
type Scratch struct {
	command *exec.Cmd
	folder  string
	input   io.WriteCloser
	output  bounded
	errors  bounded
	cancel  context.CancelFunc
	ctx     context.Context
	broken  bool
}

// Start begins a restore in a new folder below parent. Revision is the one at which keys are hashed and counted.
func Start(ctx context.Context, parent string, revision int64, limits Limits) (*Scratch, error) {
	folder, err := os.MkdirTemp(parent, "scratch-")
	if err != nil {
		return nil, fmt.Errorf("making a scratch folder: %w", err)
	}
	s := &Scratch{folder: folder}
	if err := s.start(ctx, revision, limits); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return s, nil
}

func (s *Scratch) start(ctx context.Context, revision int64, limits Limits) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	text, err := json.Marshal(order{s.folder, revision, limits})
	if err != nil {
		return fmt.Errorf("writing the scratch's order: %w", err)
	}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.command = exec.CommandContext(s.ctx, self, argument, string(text))
	// Go collects garbage before the limit ends the child. Nothing of this program's environment is the child's business.
	s.command.Env = []string{"GOMEMLIMIT=" + strconv.FormatInt(limits.Memory/4*3, 10)}
	s.command.Stdout, s.command.Stderr = &s.output, &s.errors
	s.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if s.input, err = s.command.StdinPipe(); err == nil {
		err = s.command.Start()
	}
	if err != nil {
		s.cancel()
		return fmt.Errorf("starting the scratch's process: %w", err)
	}
	return nil
}

// Write implements io.Writer. It never fails: Wait returns what is wrong with the restore, and the writer that stores the same
// bytes goes on.
func (s *Scratch) Write(p []byte) (int, error) {
	if s.broken {
		return len(p), nil
	}
	if _, err := s.input.Write(p); err != nil {
		s.broken = true
	}
	return len(p), nil
}

// Wait ends the input, waits for the result and removes the folder.
func (s *Scratch) Wait() (*backup.Restored, error) {
	_ = s.input.Close()
	ended := s.command.Wait()
	cause := context.Cause(s.ctx)
	s.cancel()
	removed := os.RemoveAll(s.folder)
	var a answer
	switch {
	case cause != nil:
		return nil, fmt.Errorf("restoring the snapshot: %w", cause)
	case ended != nil:
		return nil, fmt.Errorf("restoring the snapshot: its process ended with %w: %s", ended, s.errors.first())
	case json.Unmarshal(s.output.data.Bytes(), &a) != nil:
		return nil, errors.New("restoring the snapshot: its process printed no result")
	case a.Error != "":
		return nil, errors.New(plaintext.Strip(a.Error))
	case a.Restored == nil:
		return nil, errors.New("restoring the snapshot: its process printed no result")
	case s.broken:
		return nil, errors.New("restoring the snapshot: its process did not read all of it")
	}
	return a.Restored, removed
}

// Discard ends a restore without a result.
func (s *Scratch) Discard() {
	s.cancel()
	_, _ = s.Wait()
}

// bounded keeps the first bytes of an output.
type bounded struct{ data bytes.Buffer }

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	b.data.Write(p[:min(len(p), mostOutput-b.data.Len())])
	return len(p), nil
}

// first is the first line: of a Go program that fails, the reason.
func (b *bounded) first() string {
	line, _, _ := strings.Cut(strings.TrimSpace(b.data.String()), "\n")
	return plaintext.Strip(line[:min(len(line), 300)])
}
