package guest

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// children starts processes and collects the exit of every process that ends in the machine: a first process inherits all
// whose parents died, so that waiting for single ones would steal or miss some.
type children struct {
	mu    sync.Mutex
	exits map[int]chan syscall.WaitStatus
}

func newChildren() *children { return &children{exits: map[int]chan syscall.WaitStatus{}} }

// command is a process to be started. A nil In is empty input.
type command struct {
	argv []string
	env  []string
	dir  string
	out  *os.File
}

// process is one that was started; its status arrives once on exit.
type process struct {
	pid  int
	exit <-chan syscall.WaitStatus
}

// reap collects exits until the machine ends.
func (c *children) reap() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	for range signals {
		c.collect()
	}
}

func (c *children) collect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if exit, ok := c.exits[pid]; ok {
			exit <- status
			delete(c.exits, pid)
		}
	}
}

// start starts a process in a session of its own.
func (c *children) start(cmd command) (process, error) {
	path, err := exec.LookPath(cmd.argv[0])
	if err != nil {
		return process{}, fmt.Errorf("starting %s: %w", cmd.argv[0], err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return process{}, fmt.Errorf("starting %s: %w", cmd.argv[0], err)
	}
	defer func() { _ = null.Close() }()
	// The lock keeps the collector from taking the exit of a process that is not in the table yet.
	c.mu.Lock()
	defer c.mu.Unlock()
	pid, err := syscall.ForkExec(path, cmd.argv, &syscall.ProcAttr{
		Dir: cmd.dir, Env: cmd.env,
		Files: []uintptr{null.Fd(), cmd.out.Fd(), cmd.out.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return process{}, fmt.Errorf("starting %s: %w", path, err)
	}
	exit := make(chan syscall.WaitStatus, 1)
	c.exits[pid] = exit
	return process{pid: pid, exit: exit}, nil
}

// describe says how a process ended.
func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "killed by " + unix.SignalName(s.Signal())
	}
	return fmt.Sprintf("exit code %d", s.ExitStatus())
}

// exitCode is a status as a shell gives it.
func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
