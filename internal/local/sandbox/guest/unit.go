package guest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
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
	// service is asked before each start, since what a program is started with may change.
	service func() (service, error)
	// file is the unit's file; empty: the unit is built in.
	file string
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
	// ready: the program serves, as far as that is known.
	ready bool
	// waiting are starts that are not over; each has room for one answer.
	waiting []chan<- error
	since   time.Time
	last    string
	wake    chan struct{} // one pending wake-up at most
	idle    chan struct{} // closed while the program does not run
}

// service is how a unit's program is started, and what becomes of its end.
type service struct {
	argv []string
	// env is added to what all programs start with.
	env []string
	// notifies: the program says itself when it is ready, and a start is not over before.
	notifies bool
	// restart says after which ends the program is started again.
	restart restart
	// delay replaces the unit's, unless it is 0.
	delay time.Duration
}

// restart says after which ends a program is started again.
type restart string

// The values of restart, as in unit files. Empty is restartAlways.
const (
	restartAlways    restart = "always"
	restartOnFailure restart = "on-failure"
	restartNever     restart = "no"
)

// after reports whether a program that ended so is started again.
func (r restart) after(status syscall.WaitStatus) bool {
	switch r {
	case restartNever:
		return false
	case restartOnFailure:
		return !clean(status)
	default:
		return true
	}
}

// clean reports whether a program ended as it does when it is stopped, or has nothing left to do.
func clean(status syscall.WaitStatus) bool {
	if status.Signaled() {
		return slices.Contains([]syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGPIPE}, status.Signal())
	}
	return status.ExitStatus() == 0
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
		u.sleep(u.once())
	}
}

// once runs the program to its end, and returns how long to wait before its next start.
func (u *unit) once() time.Duration {
	s, p, err := u.begin()
	switch {
	case err != nil:
		fmt.Fprintf(u.log, "quorate-node: %v\n", err)
		u.end(err.Error(), true)
	case p != nil:
		status := <-p.exit
		fmt.Fprintf(u.log, "quorate-node: %s ended: %s\n", u.name, describe(status))
		u.end(describe(status), s.restart.after(status))
	}
	return cmp.Or(s.delay, u.delay)
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

// begin starts the program; no process without an error means that it is no longer wanted.
func (u *unit) begin() (service, *process, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.wanted {
		return service{}, nil, nil
	}
	s, err := u.service()
	if err != nil {
		return s, nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return s, nil, fmt.Errorf("starting %s: %w", u.name, err)
	}
	defer func() { _ = w.Close() }()
	p, err := u.children.start(command{argv: s.argv, env: append(environment(), s.env...), dir: "/", out: w})
	if err != nil {
		return s, nil, errors.Join(err, r.Close())
	}
	go func() {
		// Ends when the program and whatever inherited its output are gone.
		_, _ = io.Copy(u.log, r)
		_ = r.Close()
	}()
	u.pid, u.since, u.idle = p.pid, time.Now(), make(chan struct{})
	u.setReady(!s.notifies)
	return s, &p, nil
}

// setReady notes whether the program serves; the caller holds the lock.
func (u *unit) setReady(ready bool) {
	u.ready = ready
	if ready {
		u.answer(nil)
	}
}

// answer ends all starts that wait; the caller holds the lock.
func (u *unit) answer(err error) {
	for _, w := range u.waiting {
		w <- err
	}
	u.waiting = nil
}

// notified is called when the program says that it is ready.
func (u *unit) notified() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pid != 0 {
		u.setReady(true)
	}
}

// end notes that the program ended, and whether it is to be started again.
func (u *unit) end(why string, again bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.setReady(false)
	u.answer(errors.New(why))
	u.wanted = u.wanted && again
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

// await has the program running from now on, and waits until it is ready; an end before that is an error.
func (u *unit) await() error {
	u.mu.Lock()
	if u.ready {
		u.mu.Unlock()
		return nil
	}
	answer := make(chan error, 1)
	u.waiting = append(u.waiting, answer)
	u.wanted = true
	u.poke()
	u.mu.Unlock()
	return <-answer
}

// stop ends the program and waits for its end.
func (u *unit) stop() error {
	u.mu.Lock()
	u.wanted = false
	u.answer(errors.New("it was stopped"))
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
	case u.pid != 0 && u.ready:
		s.active, s.sub = "active", "running"
	case u.pid != 0:
		s.active, s.sub = "activating", "start"
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
