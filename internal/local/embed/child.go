package embed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"

	"github.com/quorate/quorate/internal/program/atomicfile"
	"github.com/quorate/quorate/internal/program/process"
)

// program is a child of the daemon.
type program struct {
	name string
	path string
	args []string
	env  []string
}

// How long a child that was asked to end may take, and the waits between its restarts.
const (
	endGrace        = 10 * time.Second
	shortestRestart = 200 * time.Millisecond
	longestRestart  = 5 * time.Second
	// stable is how long a child must live to count as started well.
	stable = 20 * time.Second
)

// hopeless is how many times in a row a child may die early before the daemon gives up while it starts.
const hopeless = 3

// starter starts processes from one thread that lives as long as it does. The kernel kills a child with the *thread* that
// started it, and Go ends threads as it likes: a child of any other thread could die while the daemon lives.
type starter struct {
	requests chan startRequest
}

type startRequest struct {
	cmd  *exec.Cmd
	done chan error
}

func newStarter() *starter {
	s := &starter{requests: make(chan startRequest)}
	go func() {
		runtime.LockOSThread()
		for r := range s.requests {
			r.done <- r.cmd.Start()
		}
	}()
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	r := startRequest{cmd: cmd, done: make(chan error)}
	s.requests <- r
	return <-r.done
}

// close lets the thread end. No child may live.
func (s *starter) close() { close(s.requests) }

// child keeps one program running.
type child struct {
	program
	starter *starter
	folder  string // for its log and pid file
	log     logr.Logger

	cancel context.CancelFunc
	ended  chan struct{}

	mu     sync.Mutex
	early  int // deaths in a row soon after its start
	reason string
}

// start keeps the program running, again and again if it dies, until stop. It returns at once.
func (c *child) start() error {
	if err := killLeftover(c.pidFile()); err != nil {
		return fmt.Errorf("ending a leftover %s: %w", c.name, err)
	}
	out, err := openLog(filepath.Join(c.folder, c.name+".log"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel, c.ended = cancel, make(chan struct{})
	go func() {
		defer close(c.ended)
		defer func() { _ = out.Close() }()
		c.keep(ctx, out)
	}()
	return nil
}

// stop ends the program and returns when it has ended. It does nothing to one that was never started.
func (c *child) stop() {
	if c.cancel == nil {
		return
	}
	c.cancel()
	<-c.ended
}

func (c *child) keep(ctx context.Context, out io.Writer) {
	wait := shortestRestart
	for ctx.Err() == nil {
		began := time.Now()
		err := c.once(ctx, out)
		if ctx.Err() != nil {
			return
		}
		lived := time.Since(began)
		c.died(err, lived)
		c.log.Info("child ended and is started again", "child", c.name, "lived", lived.Round(time.Millisecond).String(), "error", fmt.Sprint(err),
			"wait", wait.String())
		if lived > stable {
			wait = shortestRestart
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, longestRestart)
	}
}

// once runs the program until it ends; when ctx ends, it gets SIGTERM, and SIGKILL after a while.
func (c *child) once(ctx context.Context, out io.Writer) error {
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	cmd.Env = append([]string{"PATH=/usr/bin:/bin", "HOME=/"}, c.env...)
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = endGrace
	// A session of its own, so that an interrupt typed at a foreground daemon reaches the daemon alone, which then ends
	// its children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if err := c.starter.start(cmd); err != nil {
		return fmt.Errorf("starting %s: %w", c.path, err)
	}
	if err := record(c.pidFile(), cmd.Process.Pid); err != nil {
		c.log.Error(err, "recording a child; a leftover of it would not be found", "child", c.name)
	}
	err := cmd.Wait()
	return errors.Join(err, os.Remove(c.pidFile()))
}

func (c *child) died(err error, lived time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lived > stable {
		c.early = 0
	}
	c.early++
	c.reason = fmt.Sprint(err)
}

// trouble says why there is no hope that the child comes up; nil while there is.
func (c *child) trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.early < hopeless {
		return nil
	}
	log := filepath.Join(c.folder, c.name+".log")
	return fmt.Errorf("%s died %d times (%s); the end of %s:\n%s", c.name, c.early, c.reason, log, tail(log, 10))
}

func (c *child) pidFile() string { return filepath.Join(c.folder, c.name+".pid") }

// killLeftover ends a process of an earlier daemon that outlived it.
func killLeftover(pidFile string) error {
	left, ok := process.Read(pidFile)
	if !ok {
		return nil
	}
	return left.End(context.Background(), 0, endGrace)
}

// record writes down which process a child or the daemon is, so that it is known again.
func record(file string, pid int) error {
	p, err := process.Identify(pid)
	if err != nil {
		return err
	}
	return atomicfile.Write(file, []byte(p.String()+"\n"), 0o600)
}
