// Package process knows processes of this host so that none is ever taken for another: by number, start time and
// boot. It knows whether one still runs, waits for its end, and ends it. It does not know what a process is for,
// and starts none.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ID is one process, and no other before or after it: numbers are used again, and begin again when the host is
// booted. The zero value is no process.
type ID struct {
	PID int `json:"pid"`
	// Began is when it was started, in clock ticks since the host was booted.
	Began uint64 `json:"began"`
	// Boot is the kernel's name for this run of the host.
	Boot string `json:"boot"`
}

// Identify returns the process that has the number now. The error wraps fs.ErrNotExist when there is none, or when
// it has ended and only waits for its parent to notice.
func Identify(pid int) (ID, error) {
	began, err := startTime(pid)
	if err != nil {
		return ID{}, err
	}
	boot, err := Boot()
	if err != nil {
		return ID{}, err
	}
	return ID{PID: pid, Began: began, Boot: boot}, nil
}

// Parse reads what String wrote.
func Parse(text string) (ID, error) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return ID{}, fmt.Errorf("reading a process's identity: %d fields, want 3", len(fields))
	}
	pid, err := strconv.Atoi(fields[0])
	if err != nil || pid <= 0 {
		return ID{}, fmt.Errorf("reading a process's identity: %q is no number of a process", fields[0])
	}
	began, err := strconv.ParseUint(fields[2], 10, 64)
	if err != nil {
		return ID{}, fmt.Errorf("reading a process's identity: %q is no start time", fields[2])
	}
	return ID{PID: pid, Began: began, Boot: fields[1]}, nil
}

// Read returns the process whose identity a file holds, and whether it runs.
func Read(file string) (ID, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return ID{}, false
	}
	p, err := Parse(withBoot(string(text)))
	if err != nil || !p.Alive() {
		return ID{}, false
	}
	return p, true
}

// withBoot adds today's boot to an identity without one, as an earlier version of Quorate wrote it for the processes
// of a management plane, which an update must go on to know.
func withBoot(text string) string {
	fields := strings.Fields(text)
	if boot, err := Boot(); err == nil && len(fields) == 2 {
		return fields[0] + " " + boot + " " + fields[1]
	}
	return text
}

// String is the identity as one line for a file: number, boot, start time.
func (p ID) String() string { return fmt.Sprintf("%d %s %d", p.PID, p.Boot, p.Began) }

// Alive reports whether the process still runs: as long as any of its threads does, as its ports and locks are taken
// until then. One that has ended and that its parent has not waited for does not run.
func (p ID) Alive() bool {
	ended, err := p.ended()
	return err == nil && !ended
}

// ended reports whether the process has ended; with an error that is not known.
func (p ID) ended() (bool, error) {
	now, err := Identify(p.PID)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return now != p, err
}

// Signal sends a signal to the process, and never to another that has its number now. The error wraps
// os.ErrProcessDone when the process has ended.
func (p ID) Signal(signal syscall.Signal) error {
	handle, err := p.open()
	if err != nil {
		return err
	}
	defer func() { _ = handle.Close() }()
	raw, err := handle.SyscallConn() // os.File.Fd would make it a blocking one
	if err != nil {
		return fmt.Errorf("sending %s to process %d: %w", signal, p.PID, err)
	}
	var refused error
	err = raw.Control(func(fd uintptr) { refused = unix.PidfdSendSignal(int(fd), signal, nil, 0) })
	if errors.Is(refused, unix.ESRCH) {
		refused = os.ErrProcessDone
	}
	if err := errors.Join(err, refused); err != nil {
		return fmt.Errorf("sending %s to process %d: %w", signal, p.PID, err)
	}
	return nil
}

// Wait returns nil once the process has ended, or an error that wraps ctx's. It does not poll. No process has ended.
func (p ID) Wait(ctx context.Context) error {
	handle, err := p.open()
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = handle.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = handle.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	raw, err := handle.SyscallConn()
	if err == nil {
		// The handle is readable once the process has ended.
		err = raw.Read(func(fd uintptr) bool {
			n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return err == nil && n > 0
		})
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("waiting for the end of process %d: %w", p.PID, err)
	}
	return nil
}

// End asks the process to end, unless orderly is 0, and kills it when it has not ended by then. It returns once the
// process has ended, at the latest after orderly and killed have passed.
func (p ID) End(ctx context.Context, orderly, killed time.Duration) error {
	for _, attempt := range []struct {
		signal syscall.Signal
		limit  time.Duration
	}{{syscall.SIGTERM, orderly}, {syscall.SIGKILL, killed}} {
		if attempt.limit == 0 {
			continue
		}
		if err := p.Signal(attempt.signal); err != nil {
			if errors.Is(err, os.ErrProcessDone) {
				return nil
			}
			return err
		}
		limited, cancel := context.WithTimeout(ctx, attempt.limit)
		err := p.Wait(limited)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return fmt.Errorf("process %d does not end after SIGKILL", p.PID)
}

// open returns a handle of the process, or an error that wraps os.ErrProcessDone.
func (p ID) open() (*os.File, error) {
	// The number may pass to another process before the handle is there, and not afterwards.
	fd, opening := unix.PidfdOpen(p.PID, unix.PIDFD_NONBLOCK)
	ended, err := p.ended()
	if err == nil && !ended && opening == nil {
		return os.NewFile(uintptr(fd), "process "+strconv.Itoa(p.PID)), nil
	}
	if opening == nil {
		_ = unix.Close(fd)
	}
	if ended {
		return nil, os.ErrProcessDone
	}
	return nil, fmt.Errorf("opening process %d: %w", p.PID, errors.Join(err, opening))
}

// startTime is when a process that runs was started, in clock ticks since the host was booted.
func startTime(pid int) (uint64, error) {
	data, err := readStat(pid)
	if err != nil {
		return 0, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	// The second field is the program's name in parentheses, which may hold anything; what follows are fields 3 and on.
	const first = 3
	const state, threads, start = 0, 20 - first, 22 - first
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= start {
		return 0, fmt.Errorf("looking at process %d: its stat has %d fields", pid, len(fields))
	}
	// As long as any thread lives, the ports and locks of a process do, even if its first thread has ended.
	last := len(fields[threads]) == 1 && fields[threads][0] <= '1'
	if s := fields[state][0]; s == 'X' || (s == 'Z' && last) {
		return 0, fmt.Errorf("process %d has ended: %w", pid, fs.ErrNotExist)
	}
	began, err := strconv.ParseUint(string(fields[start]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	return began, nil
}

// readStat reads what the kernel tells of a process; fs.ErrNotExist when there is none.
func readStat(pid int) ([]byte, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, unix.ESRCH) { // it went between opening and reading
		return nil, fs.ErrNotExist
	}
	return data, err
}

// Boot is the kernel's name for this run of the host.
func Boot() (string, error) {
	data, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the host's boot id: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}
