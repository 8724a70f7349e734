package balancer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// startPatience is how long a process may take until it takes connections.
	startPatience = 5 * time.Second
	// stopPatience is how long a process may take to end in good order.
	stopPatience = 3 * time.Second
)

// PIDFile names the file that a running process keeps: its number, and what tells it apart from a later process
// with the same number.
func PIDFile(configFile string) string { return strings.TrimSuffix(configFile, ".json") + ".pid" }

// LogFile is where a process started by Start writes its log.
func LogFile(configFile string) string { return strings.TrimSuffix(configFile, ".json") + ".log" }

// lock makes this process the only one that serves the configuration file, and writes the PID file. The lock
// ends with the process, whatever ends it.
func lock(configFile string) (unlock func(), err error) {
	path := PIDFile(configFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("another process serves %s already", configFile)
		}
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	mark, err := markOf(os.Getpid())
	if err == nil {
		err = errors.Join(f.Truncate(0), writeAll(f, fmt.Sprintf("%d %s\n", os.Getpid(), mark)))
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}

func writeAll(f *os.File, text string) error {
	_, err := f.WriteString(text)
	return err
}

// markOf returns what a process has for itself beside its number: the boot, and when in it the process started.
// The error wraps fs.ErrNotExist when there is no such process, or it has ended and only waits to be reaped.
func markOf(pid int) (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("reading the boot's id: %w", err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", fmt.Errorf("looking at process %d: %w", pid, err)
	}
	// The second field is the program's name in parentheses, which may contain anything; state is the third field,
	// the start time the twenty-second.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(fields) < 20 {
		return "", fmt.Errorf("looking at process %d: %d fields, want 20 or more", pid, len(fields))
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return "", fmt.Errorf("process %d has ended: %w", pid, os.ErrNotExist)
	}
	return strings.TrimSpace(string(boot)) + " " + fields[19], nil
}

// Running returns the number of the process that serves the configuration file, and whether there is one.
func Running(configFile string) (pid int, ok bool) {
	text, err := os.ReadFile(PIDFile(configFile))
	if err != nil {
		return 0, false
	}
	number, mark, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if pid, err = strconv.Atoi(number); err != nil {
		return 0, false
	}
	now, err := markOf(pid)
	return pid, err == nil && now == mark
}

// Start runs binary as a process of its own that serves the configuration file and outlives its parent. It
// returns once connections are taken, or with the reason why the process cannot take any.
func Start(ctx context.Context, binary, configFile string) error {
	log, err := os.OpenFile(LogFile(configFile), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("starting an endpoint: %w", err)
	}
	defer func() { _ = log.Close() }()
	command := exec.Command(binary, "endpoint", "--config", configFile)
	command.Stdout, command.Stderr = log, log
	command.Dir = "/"
	// A session of its own: what is sent to the parent's terminal or process group does not reach it.
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting an endpoint: %w", err)
	}
	gone := make(chan struct{})
	go func() {
		_ = command.Wait() // how it ended is in its log
		close(gone)
	}()
	if err := waitStarted(ctx, configFile, command.Process.Pid, gone); err != nil {
		return fmt.Errorf("starting an endpoint: %w", err)
	}
	return nil
}

// waitStarted returns nil once the process takes connections.
func waitStarted(ctx context.Context, configFile string, pid int, gone <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d does not take connections: %w", pid, ctx.Err())
		case <-gone:
			if s, err := ReadStatus(configFile); err == nil && s.PID == pid && s.Error != "" {
				return errors.New(s.Error)
			}
			return fmt.Errorf("process %d ended: %s", pid, lastLine(LogFile(configFile)))
		case <-tick.C:
			if s, err := ReadStatus(configFile); err == nil && s.PID == pid && s.Listen != "" {
				return nil
			}
		}
	}
}

// lastLine is the last line that a process logged, for a message that tells why it ended.
func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[len(lines)-1]
}

// Stop ends the process that serves the configuration file, in good order if it can. It returns once the process is gone.
func Stop(ctx context.Context, configFile string) error {
	process, err := open(configFile)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stopping the endpoint: %w", err)
	}
	defer func() { _ = process.Close() }()
	for _, signal := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := send(process, signal); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("stopping the endpoint: %w", err)
		}
		patience, cancel := context.WithTimeout(ctx, stopPatience)
		err = waitEnd(patience, process)
		cancel()
		if err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("stopping the endpoint: %w", err)
	}
	return nil
}

// Wait returns nil once no process serves the configuration file, or ctx's error. It does not poll.
func Wait(ctx context.Context, configFile string) error {
	process, err := open(configFile)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("waiting for the endpoint's end: %w", err)
	}
	defer func() { _ = process.Close() }()
	return waitEnd(ctx, process)
}

// open returns a handle of the process that serves the configuration file, or os.ErrProcessDone.
func open(configFile string) (*os.File, error) {
	pid, ok := Running(configFile)
	if !ok {
		return nil, os.ErrProcessDone
	}
	handle, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil, os.ErrProcessDone
	}
	if err != nil {
		return nil, fmt.Errorf("opening process %d: %w", pid, err)
	}
	// The number may have passed to another process before the handle was there, and not afterwards.
	if again, ok := Running(configFile); !ok || again != pid {
		_ = unix.Close(handle)
		return open(configFile)
	}
	return os.NewFile(uintptr(handle), "pidfd"), nil
}

// send signals a process by its handle, which os.File.Fd would make a blocking one.
func send(process *os.File, signal unix.Signal) error {
	raw, err := process.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) { refused = unix.PidfdSendSignal(int(fd), signal, nil, 0) })
	return errors.Join(err, refused)
}

// waitEnd returns nil once the process behind the handle has ended: the handle is then readable.
func waitEnd(ctx context.Context, process *os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = process.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	_ = process.SetReadDeadline(time.Time{})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	raw, err := process.SyscallConn()
	if err != nil {
		return err
	}
	err = raw.Read(func(fd uintptr) bool {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		return err == nil && n > 0
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
