package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/program/process"
)

// changes notices what happens to machines, by any process: files in their folders, through the kernel's
// notifications, and the end of their first processes.
type changes struct {
	names chan string

	mu      sync.Mutex
	cond    *sync.Cond
	pending []string
	watches map[int]watched // by the kernel's number
	process map[string]process.ID
}

type watched struct {
	path, name string // of the machine; empty for the folder of all
}

func newChanges() *changes {
	c := &changes{names: make(chan string), watches: map[int]watched{}, process: map[string]process.ID{}}
	c.cond = sync.NewCond(&c.mu)
	return c
}

// begin watches until this process ends.
func (c *changes) begin(h *Host) {
	go c.deliver()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err == nil {
		err = os.MkdirAll(h.machines(), 0o700)
	}
	if err != nil {
		// Without notifications the reader hears nothing, as on a quiet host; it looks by itself now and then.
		return
	}
	file := os.NewFile(uintptr(fd), "changes of machines")
	c.watch(fd, h.machines(), "")
	go c.read(h, file, fd)
	names, err := h.names()
	if err != nil {
		return
	}
	for _, name := range names {
		c.follow(h, fd, name)
	}
}

const watchMask = unix.IN_CREATE | unix.IN_MOVED_TO | unix.IN_DELETE | unix.IN_ONLYDIR

func (c *changes) watch(fd int, path, name string) {
	number, err := unix.InotifyAddWatch(fd, path, watchMask)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watches[number] = watched{path: path, name: name}
}

// follow watches one machine, and tells of it: something may have happened before the watch began.
func (c *changes) follow(h *Host, fd int, name string) {
	f := h.folder(name)
	c.watch(fd, string(f), name)
	c.watch(fd, f.shared(), name)
	c.awaitEnd(h, name)
	c.tell(name)
}

// awaitEnd tells of the machine when its first process ends.
func (c *changes) awaitEnd(h *Host, name string) {
	r, err := h.folder(name).load()
	if err != nil || !r.Process.Alive() {
		return
	}
	c.mu.Lock()
	known := c.process[name] == r.Process
	c.process[name] = r.Process
	c.mu.Unlock()
	if known {
		return
	}
	go func() {
		if r.Process.Wait(context.Background()) == nil {
			c.tell(name)
		}
	}()
}

// read turns the kernel's notifications into names.
func (c *changes) read(h *Host, file *os.File, fd int) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := file.Read(buffer)
		if err != nil {
			return
		}
		for _, e := range parseEvents(buffer[:n]) {
			c.handle(h, fd, e)
		}
	}
}

type event struct {
	watch int
	mask  uint32
	name  string
}

func parseEvents(data []byte) []event {
	var events []event
	for len(data) >= unix.SizeofInotifyEvent {
		size := int(binary.NativeEndian.Uint32(data[12:]))
		name, _, _ := bytes.Cut(data[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size], []byte{0})
		events = append(events, event{
			watch: int(int32(binary.NativeEndian.Uint32(data))), mask: binary.NativeEndian.Uint32(data[4:]), name: string(name),
		})
		data = data[unix.SizeofInotifyEvent+size:]
	}
	return events
}

func (c *changes) handle(h *Host, fd int, e event) {
	if e.mask&unix.IN_Q_OVERFLOW != 0 {
		c.tellAll(h)
		return
	}
	w, ok := c.watchOf(e)
	// Files are written under another name first.
	if !ok || e.name == "" || e.name[0] == '.' {
		return
	}
	switch {
	case w.name != "":
		c.handleMachine(h, fd, w.name, e.name)
	case e.mask&unix.IN_DELETE != 0:
		c.tell(e.name)
	default:
		c.follow(h, fd, e.name)
	}
}

// watchOf returns the watch that an event came from, and forgets a watch that the kernel has ended.
func (c *changes) watchOf(e event) (watched, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.watches[e.watch]
	if e.mask&unix.IN_IGNORED != 0 {
		delete(c.watches, e.watch)
	}
	return w, ok
}

// handleMachine tells of a machine in whose folder a file has changed.
func (c *changes) handleMachine(h *Host, fd int, machine, file string) {
	if file == "bootstrap" {
		c.watch(fd, h.folder(machine).shared(), machine)
	}
	c.awaitEnd(h, machine)
	c.tell(machine)
}

func (c *changes) tellAll(h *Host) {
	names, err := h.names()
	if err != nil {
		return
	}
	for _, name := range names {
		c.tell(name)
	}
}

func (c *changes) tell(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, waiting := range c.pending {
		if waiting == name {
			return
		}
	}
	c.pending = append(c.pending, name)
	c.cond.Signal()
}

// deliver hands names to the reader, however slow that is.
func (c *changes) deliver() {
	for {
		c.mu.Lock()
		for len(c.pending) == 0 {
			c.cond.Wait()
		}
		name := c.pending[0]
		c.pending = c.pending[1:]
		c.mu.Unlock()
		c.names <- name
	}
}
