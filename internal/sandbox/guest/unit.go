package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unit is a program that is kept running while it is wanted.
type unit struct {
	name        string
	description string
	children    *children
	log         io.Writer
	// command is asked before each start, since what a program is started with may change.
	command func() ([]string, error)
	// needs is a file without which a start makes no sense yet; empty: none.
	needs string
	// enabled is the file that says that the program starts with the machine.
	enabled string
	// delay lies between the end of the program and its next start.
	delay time.Duration
	// ended, if any, gets something when the program ended; it has room for one.
	ended chan<- struct{}

	mu     sync.Mutex
	wanted bool
	pid    int
	since  time.Time
	last   string
	wake   chan struct{} // one pending wake-up at most
	idle   chan struct{} // closed while the program does not run
}

// stopTimeout is how long a program may take to end by itself.
const stopTimeout = 20 * time.Second

// look is how often a missing file is looked for.
const look = 250 * time.Millisecond

func (u *unit) init() *unit {
	u.wake, u.idle = make(chan struct{}, 1), make(chan struct{})
	close(u.idle)
	return u
}

// supervise runs for the machine's life.
func (u *unit) supervise() {
	for {
		if !u.startable() {
			u.sleep(look)
			continue
		}
		p, err := u.begin()
		if err != nil {
			fmt.Fprintf(u.log, "quorate-node: %v\n", err)
			u.end(err.Error())
		} else if p != nil {
			status := <-p.exit
			fmt.Fprintf(u.log, "quorate-node: %s ended: %s\n", u.name, describe(status))
			u.end(describe(status))
		}
		u.sleep(u.delay)
	}
}

func (u *unit) startable() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.wanted {
		return false
	}
	if u.needs == "" {
		return true
	}
	_, err := os.Stat(u.needs)
	return err == nil
}

// sleep returns after d, or at once when what is wanted changed.
func (u *unit) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-u.wake:
	case <-timer.C:
	}
}

// begin starts the program; nil without an error means that it is no longer wanted.
func (u *unit) begin() (*process, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.wanted {
		return nil, nil
	}
	argv, err := u.command()
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", u.name, err)
	}
	defer func() { _ = w.Close() }()
	p, err := u.children.start(command{argv: argv, env: environment(), dir: "/", out: w})
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	go func() {
		// Ends when the program and whatever inherited its output are gone.
		_, _ = io.Copy(u.log, r)
		_ = r.Close()
	}()
	u.pid, u.since, u.idle = p.pid, time.Now(), make(chan struct{})
	return &p, nil
}

func (u *unit) end(why string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pid != 0 {
		close(u.idle)
	}
	select {
	case u.ended <- struct{}{}:
	default:
	}
	u.pid, u.since, u.last = 0, time.Now(), why
}

// start has the program running from now on; it does not wait for it.
func (u *unit) start() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wanted = true
	u.poke()
}

// stop ends the program and waits for its end.
func (u *unit) stop() error {
	u.mu.Lock()
	u.wanted = false
	pid, idle := u.pid, u.idle
	u.poke()
	u.mu.Unlock()
	if pid == 0 {
		return nil
	}
	for _, s := range []syscall.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := unix.Kill(pid, s); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("stopping %s: %w", u.name, err)
		}
		select {
		case <-idle:
			return nil
		case <-time.After(stopTimeout):
		}
	}
	return fmt.Errorf("stopping %s: process %d does not end", u.name, pid)
}

// poke wakes the supervisor; the caller holds the lock.
func (u *unit) poke() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// state is the unit's, in systemd's words.
func (u *unit) state() unitState {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := unitState{pid: u.pid, since: u.since, last: u.last, active: "inactive", sub: "dead"}
	switch {
	case u.pid != 0:
		s.active, s.sub = "active", "running"
	case u.wanted:
		s.active, s.sub = "activating", "auto-restart"
	}
	return s
}

type unitState struct {
	active, sub, last string
	pid               int
	since             time.Time
}

// environment is what programs in a machine start with.
func environment() []string { return []string{"PATH=" + Path, "HOME=/root", "LANG=C.UTF-8"} }
