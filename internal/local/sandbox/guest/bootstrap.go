package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/local/cloudinit"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// The phases of a bootstrap.
const (
	Running   = "Running"
	Succeeded = "Succeeded"
	Failed    = "Failed"
)

// bootstrap waits for the data and carries it out, once in the machine's life: like a machine with cloud-init, one
// that lost its power in the middle does not begin again.
func (m *machine) bootstrap(ctx context.Context) {
	m.mu.Lock()
	phase := m.status.Bootstrap.Phase
	m.mu.Unlock()
	if phase != "" {
		return
	}
	data, err := m.awaitData()
	if err != nil {
		m.say("waiting for the bootstrap data: %v", err)
		return
	}
	m.say("bootstrap begins, %d bytes", len(data))
	result, kubelet := m.carryOut(ctx, data), ""
	result.Ended = time.Now().UTC().Truncate(time.Millisecond)
	if result.Phase == Failed {
		result.Full, kubelet = fullDisks(writtenTo), kubeletErrors()
	}
	m.say("bootstrap: %s %s", result.Phase, result.Unsupported)
	if err := m.update(func(s *Status) { s.Bootstrap, s.Kubelet = result, kubelet }); err != nil {
		m.say("%v", err)
	}
}

// awaitData returns the data as soon as it is there and containerd answers.
func (m *machine) awaitData() ([]byte, error) {
	watch, err := newWatch(SharedDir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = watch.Close() }()
	for {
		data, err := os.ReadFile(filepath.Join(SharedDir, UserDataFile))
		if err != nil && !os.IsNotExist(err) {
			return nil, fmt.Errorf("reading it: %w", err)
		}
		// The machine's own status lies in the same folder, so that its becoming ready ends the wait too.
		if err == nil && m.ready() {
			return data, nil
		}
		if _, err := watch.Read(make([]byte, 4096)); err != nil {
			return nil, fmt.Errorf("watching %s: %w", SharedDir, err)
		}
	}
}

// newWatch returns a file that can be read whenever an entry of the folder was written or renamed into place.
func newWatch(dir string) (*os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", dir, err)
	}
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO|unix.IN_CLOSE_WRITE); err != nil {
		return nil, fmt.Errorf("watching %s: %w", dir, errors.Join(err, unix.Close(fd)))
	}
	return os.NewFile(uintptr(fd), "watch of "+dir), nil
}

// carryOut reads and executes the data.
func (m *machine) carryOut(ctx context.Context, data []byte) Bootstrap {
	meta := cloudinit.Meta{Name: m.boot.Name, InstanceID: m.boot.Name, Address: m.boot.Address4, Address6: m.boot.Address6}
	config, err := cloudinit.Parse(data, meta)
	if err != nil {
		return Bootstrap{Phase: Failed, Command: "reading the bootstrap data", Output: plaintext.Shown(err.Error()),
			Unsupported: plaintext.Shown(cloudinit.Unsupported(err))}
	}
	log, err := openLog(filepath.Join(LogDir, "bootstrap.log"), logLimit)
	if err != nil {
		return Bootstrap{Phase: Failed, Output: err.Error()}
	}
	m.began("")
	ctx, ended := context.WithCancel(ctx)
	defer ended()
	if m.boot.Containers {
		go m.hastenKubelet(ctx)
	}
	failure := config.Apply(ctx, cloudinit.System{
		Root: "/", Log: log, Began: m.began, Run: m.runScript,
		SetHostname: func(name string) error { return unix.Sethostname([]byte(name)) },
	})
	if err := cloudinit.Sweep("/"); err != nil {
		m.say("%v", err)
	}
	if failure != nil {
		return Bootstrap{
			Phase: Failed, Command: plaintext.Shown(failure.Command), Output: plaintext.Shown(failure.Output),
			Unsupported: plaintext.Shown(failure.Unsupported),
		}
	}
	return Bootstrap{Phase: Succeeded}
}

// began notes what runs now, for everybody who may ask how far the machine is: the log of the bootstrap itself is for its owner.
func (m *machine) began(command string) {
	command = plaintext.Shown(command)
	if command != "" {
		m.say("bootstrap: %s", firstLine(command))
	}
	if err := m.update(func(s *Status) { s.Bootstrap = Bootstrap{Phase: Running, Command: command} }); err != nil {
		m.say("%v", err)
	}
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// drainTimeout is how long output is awaited from programs that outlive the script that started them.
const drainTimeout = 500 * time.Millisecond

// runScript runs a program to its end. What it leaves running in the background keeps its output and is not waited for.
func (m *machine) runScript(_ context.Context, argv []string, out io.Writer) (int, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, fmt.Errorf("running %s: %w", argv[0], err)
	}
	p, err := m.children.start(command{argv: argv, env: environment(), dir: "/", out: w})
	if err != nil {
		return 0, errors.Join(err, r.Close(), w.Close())
	}
	_ = w.Close()
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(out, r)
	}()
	status := <-p.exit
	if err := r.SetReadDeadline(time.Now().Add(drainTimeout)); err != nil {
		return 0, fmt.Errorf("running %s: %w", argv[0], err)
	}
	<-copied
	return exitCode(status), r.Close()
}
