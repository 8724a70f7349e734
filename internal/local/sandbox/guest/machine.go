package guest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/program/atomicfile"
)

// machine is what the first process knows.
type machine struct {
	boot     *Boot
	log      *logFile
	children *children
	units    *units

	mu     sync.Mutex
	status Status
}

// Run is a machine's first process. It returns only when it cannot begin; the machine ends with it.
func Run() int {
	log, err := openLog(filepath.Join(LogDir, "init.log"), logLimit)
	if err != nil {
		fmt.Fprintf(os.Stderr, "quorate-node: %v\n", err)
		return 1
	}
	m := &machine{log: log, children: newChildren()}
	m.say("%v", m.run(context.Background()))
	return 1
}

// say writes one line to the machine's own log.
func (m *machine) say(format string, args ...any) {
	fmt.Fprintf(m.log, "%s %s\n", time.Now().UTC().Format("2006-01-02T15:04:05.000Z"), fmt.Sprintf(format, args...))
}

// run returns only with an error.
func (m *machine) run(ctx context.Context) error {
	boot, err := readBoot(filepath.Join(SharedDir, BootFile))
	if err != nil {
		return err
	}
	m.boot = boot
	m.say("machine %s is powered on", boot.Name)
	unix.Umask(0o022)
	go m.children.reap()
	// Exits from before the reaper listened.
	m.children.collect()
	if err := m.restoreStatus(); err != nil {
		return err
	}
	if err := m.startUnits(); err != nil {
		return err
	}
	l, err := net.Listen("unix", controlSocket)
	if err != nil {
		return fmt.Errorf("listening for systemctl: %w", err)
	}
	go m.bootstrap(ctx)
	return serveSystemctl(l, m.units)
}

func (m *machine) startUnits() error {
	var err error
	m.units, err = newUnits(m.children, m.boot.Containers, func(name string) (io.Writer, error) {
		return openLog(filepath.Join(LogDir, name), logLimit)
	})
	if err != nil {
		return err
	}
	ended := map[string]chan struct{}{"containerd": make(chan struct{}, 1), "kubelet": make(chan struct{}, 1)}
	for _, u := range m.units.known {
		u.ended = ended[u.name]
		// containerd is part of the machine, whatever is enabled: without it nothing of a machine works.
		if u.name == "containerd" || u.startsWithMachine() {
			u.start()
		}
		go u.supervise()
	}
	if err := m.startWritten(); err != nil {
		return err
	}
	if !m.boot.Containers {
		return m.update(func(s *Status) { s.Ready = true })
	}
	go m.watchContainerd(ended["containerd"])
	go m.watchKubelet(ended["kubelet"])
	go func() {
		// Services and pods of the cluster work without it.
		if err := m.masquerade(); err != nil {
			m.say("%v", err)
		}
	}()
	return nil
}

// startWritten starts the units that somebody wrote on the machine, and enabled.
func (m *machine) startWritten() error {
	names, err := m.units.enabled()
	if err != nil {
		return err
	}
	for _, name := range names {
		u, err := m.units.find(name)
		if err != nil {
			return err
		}
		if u != nil && u.file != "" {
			u.start()
		}
	}
	return nil
}

// How often containerd is asked while it does not answer, and while it does.
const (
	askSoon = 25 * time.Millisecond
	askIdle = 5 * time.Second
)

// watchContainerd keeps Ready true to what containerd says; ended gets something when it ended.
func (m *machine) watchContainerd(ended <-chan struct{}) {
	began, ready := time.Now(), false
	for {
		err := m.askContainerd(ready)
		ready = err == nil
		problem := ""
		// A socket that is not there yet is how every start begins.
		if err != nil && time.Since(began) > askTimeout {
			problem = err.Error()
		}
		if err := m.update(func(s *Status) { s.Ready, s.Problem = ready, problem }); err != nil {
			m.say("%v", err)
		}
		wait := askIdle
		if ready {
			began = time.Now()
		} else {
			wait = min(askSoon+time.Since(began)/20, time.Second)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ended:
			began = time.Now()
		case <-timer.C:
		}
		timer.Stop()
	}
}

// askContainerd returns an error unless containerd answers. Where it was not ready before, the images are imported.
func (m *machine) askContainerd(ready bool) error {
	if err := containerdAnswers(context.Background()); err != nil || ready {
		return err
	}
	return m.importImages()
}

// restoreStatus takes up what an earlier power-on left.
func (m *machine) restoreStatus() error {
	data, err := os.ReadFile(filepath.Join(SharedDir, StatusFile))
	if err == nil {
		err = json.Unmarshal(data, &m.status)
	}
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("reading the machine's status: %w", err)
	}
	return m.update(func(s *Status) {
		s.Ready, s.Problem = false, ""
		if s.Bootstrap.Phase == Succeeded {
			s.Kubelet = ""
		}
		if s.Bootstrap.Phase == Running {
			s.Bootstrap.Phase = Failed
			s.Bootstrap.Output = Interrupted + s.Bootstrap.Output
		}
	})
}

// Interrupted begins the output of a bootstrap during which the machine was powered off.
const Interrupted = "interrupted: the machine was powered off while this ran\n"

// update changes the status and lets the host see it; nothing is written when nothing changed.
func (m *machine) update(change func(*Status)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.status
	change(&m.status)
	path := filepath.Join(SharedDir, StatusFile)
	if m.status == before {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
	}
	data, err := json.Marshal(m.status)
	if err != nil {
		return fmt.Errorf("writing the machine's status: %w", err)
	}
	return atomicfile.Write(path, data, 0o600)
}

func (m *machine) ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status.Ready
}
