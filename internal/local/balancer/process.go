package balancer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/program/process"
)

const (
	// startTimeout is how long a process may take until it takes connections.
	startTimeout = 5 * time.Second
	// stopTimeout is how long a process may take to end in good order.
	stopTimeout = 3 * time.Second
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
	me, err := process.Identify(os.Getpid())
	if err == nil {
		err = errors.Join(f.Truncate(0), writeAll(f, me.String()+"\n"))
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

// Running returns the number of the process that serves the configuration file, and whether there is one.
func Running(configFile string) (pid int, ok bool) {
	p, ok := process.Read(PIDFile(configFile))
	return p.PID, ok
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
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("process %d does not take connections: %w", pid, ctx.Err())
		case <-gone:
			if s := statusOf(configFile, pid); s.Error != "" {
				return errors.New(s.Error)
			}
			return fmt.Errorf("process %d ended: %s", pid, lastLine(LogFile(configFile)))
		case <-tick.C:
			if s := statusOf(configFile, pid); s.Listen != "" {
				return nil
			}
		}
	}
}

// statusOf is what a process wrote about itself; empty as long as it has written nothing.
func statusOf(configFile string, pid int) Status {
	s, err := ReadStatus(configFile)
	if err != nil || s.PID != pid {
		return Status{}
	}
	return s
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
	p, ok := process.Read(PIDFile(configFile))
	if !ok {
		return nil
	}
	if err := p.End(ctx, stopTimeout, stopTimeout); err != nil {
		return fmt.Errorf("stopping the endpoint: %w", err)
	}
	return nil
}

// Wait returns nil once no process serves the configuration file, or ctx's error. It does not poll.
func Wait(ctx context.Context, configFile string) error {
	p, ok := process.Read(PIDFile(configFile))
	if !ok {
		return nil
	}
	return p.Wait(ctx)
}
