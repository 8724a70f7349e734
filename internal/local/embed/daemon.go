package embed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/program/atomicfile"
	"github.com/quorate/quorate/internal/program/process"
)

// Files of the daemon in the state folder. The lock is held by a living daemon, startLock by the process that starts one.
const (
	daemonLock   = "daemon.lock"
	startLock    = "start.lock"
	daemonPID    = "daemon.pid"
	daemonLog    = "daemon.log"
	daemonStatus = "daemon.status"
)

// LogPath is where the log of an environment's daemon lies.
func LogPath(state string) string { return filepath.Join(state, daemonLog) }

// ErrRunning is what Run returns when another daemon has the state folder.
var ErrRunning = errors.New("a daemon runs already")

// stopLimit is how long a daemon may take to end in order before it is killed.
const stopLimit = 30 * time.Second

// status is how far a daemon's start is.
type status struct {
	Phase string `json:"phase"`
	Ready bool   `json:"ready"`
	// RuntimeExtensions and FeatureGates are what the daemon was started with, once it is ready.
	RuntimeExtensions bool            `json:"runtimeExtensions,omitempty"`
	FeatureGates      map[string]bool `json:"featureGates,omitempty"`
	// MadeFor is the management cluster whose machines it makes; empty: those of its own management plane.
	MadeFor string `json:"madeFor,omitempty"`
}

// fits reports whether a daemon that says so need not be replaced for what the environment says now.
func (s status) fits(e Environment) bool {
	return s.Phase != phaseEnding && (!s.Ready ||
		s.RuntimeExtensions == e.RuntimeExtensions && maps.Equal(s.FeatureGates, e.FeatureGates) && s.MadeFor == e.madeFor())
}

// phaseEnding is the phase of a daemon that was asked to end.
const phaseEnding = "ending"

func (s status) save(state string) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding the daemon's status: %w", err)
	}
	return atomicfile.Write(filepath.Join(state, daemonStatus), data, 0o600)
}

func loadStatus(state string) status {
	var s status
	data, err := os.ReadFile(filepath.Join(state, daemonStatus))
	if err != nil || json.Unmarshal(data, &s) != nil {
		return status{}
	}
	return s
}

// Running returns the process of an environment's daemon, and whether there is one.
func Running(state string) (pid int, ok bool) {
	daemon, ok := process.Read(filepath.Join(state, daemonPID))
	return daemon.PID, ok
}

// Start has a daemon run in the background for the state folder, and returns when the management plane is ready. It makes
// what is missing, artifacts included; progress, which may be nil, hears what it waits for. A daemon that runs already and
// is of the same program and settings is left as it is; any other is replaced. Where a management cluster keeps the Clusters, that answers
// too. The daemon outlives the caller. When it does not come up, the error holds the end of its log.
func Start(ctx context.Context, o Options, progress func(string)) error {
	if progress == nil {
		progress = func(string) {}
	}
	// First of all what needs no folder: a wish that cannot be met leaves nothing behind.
	o, err := o.acceptable()
	if err != nil {
		return err
	}
	lock, err := lockStart(ctx, o.State)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()

	e, err := ensureEnvironment(ctx, o, progress)
	if err != nil {
		return err
	}
	if pid, ok := Running(o.State); ok {
		if loadStatus(o.State).fits(e) && sameProgram(pid, o.Command[0]) {
			if err := waitReady(ctx, o.State, nil, progress); err != nil {
				return err
			}
			return awaitCluster(ctx, o.State, progress)
		}
		progress("replacing the daemon, which is of another build, has other settings or is about to end")
	}
	if err := replaceDaemon(ctx, o, e, progress); err != nil {
		return err
	}
	return awaitCluster(ctx, o.State, progress)
}

// lockStart makes the state folder and waits until no other start works in it.
func lockStart(ctx context.Context, state string) (*flock.Flock, error) {
	if err := os.MkdirAll(state, 0o755); err != nil {
		return nil, fmt.Errorf("creating the state folder: %w", err)
	}
	lock := flock.New(filepath.Join(state, startLock))
	if _, err := lock.TryLockContext(ctx, poll); err != nil {
		return nil, fmt.Errorf("waiting for another start in %s: %w", state, err)
	}
	return lock, nil
}

// replaceDaemon stops the daemon that there may be, starts another and waits until it is ready.
func replaceDaemon(ctx context.Context, o Options, e Environment, progress func(string)) error {
	// Without a daemon it ends what a killed one left, which may have the ports.
	if err := Stop(ctx, o.State); err != nil {
		return err
	}
	// The daemon looks itself, but could only say it in its log.
	if err := e.Ports.check(); err != nil {
		return err
	}
	progress("starting the daemon")
	died, err := spawn(o)
	if err != nil {
		return err
	}
	return waitReady(ctx, o.State, died, progress)
}

// Check reports whether Start would accept the options: the address range and the version of a new environment, or what an existing
// one was made with. It changes nothing.
func Check(o Options) error {
	_, err := o.acceptable()
	return err
}

// acceptable returns the options, complete, if the state folder can have or has an environment like that.
func (o Options) acceptable() (Options, error) {
	o, err := o.complete()
	if err != nil {
		return o, err
	}
	_, err = o.environment()
	return o, err
}

// spawn starts the daemon, in a session of its own, and returns a channel that tells its early death.
func spawn(o Options) (<-chan error, error) {
	log, err := os.OpenFile(LogPath(o.State), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the daemon's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	// What an earlier daemon said of itself does not hold for this one.
	if err := os.Remove(filepath.Join(o.State, daemonStatus)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("removing an earlier daemon's status: %w", err)
	}
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the daemon %s: %w", o.Command[0], err)
	}
	died := make(chan error, 1)
	go func() { died <- cmd.Wait() }()
	return died, nil
}

// waitReady waits until the daemon says that it is ready.
func waitReady(ctx context.Context, state string, died <-chan error, progress func(string)) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	var said string
	for {
		s := loadStatus(state)
		pid, running := Running(state)
		if running && s.Ready {
			return nil
		}
		if s.Phase != said {
			said = s.Phase
			progress(said)
		}
		if err := awaitPoll(ctx, state, said, died, ticker.C); err != nil {
			return err
		}
		if died == nil && !running {
			return fmt.Errorf("the daemon (process %d) ended while it started; the end of %s:\n%s", pid, LogPath(state), tail(LogPath(state), 15))
		}
	}
}

// awaitPoll waits until it is time to look at the daemon again. It returns an error when ctx or the daemon ends first.
func awaitPoll(ctx context.Context, state, phase string, died <-chan error, again <-chan time.Time) error {
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for the daemon, which is %s: %w", phase, ctx.Err())
	case err := <-died:
		return fmt.Errorf("the daemon ended while it started (%w); the end of %s:\n%s", exitError(err), LogPath(state), tail(LogPath(state), 15))
	case <-again:
		return nil
	}
}

func exitError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// sameProgram reports whether a process runs the program that lies at path now.
func sameProgram(pid int, path string) bool {
	running, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false
	}
	resolved, err := exec.LookPath(path)
	if err != nil {
		return true
	}
	there, err := os.Stat(resolved)
	return err != nil || os.SameFile(running, there)
}

// Stop ends the daemon of a state folder with its management plane, in order if it can. Machines live on. Without a daemon
// it does nothing.
func Stop(ctx context.Context, state string) error {
	daemon, ok := process.Read(filepath.Join(state, daemonPID))
	if !ok {
		return killChildren(state)
	}
	// It holds its lock until it has ended, which is later than the end of its pid file.
	if err := daemon.End(ctx, stopLimit, endGrace); err != nil {
		return fmt.Errorf("ending the daemon: %w", err)
	}
	return killChildren(state)
}

// killChildren ends what a killed daemon left, should its children not have died with it.
func killChildren(state string) error {
	files, err := filepath.Glob(filepath.Join(state, "management", "logs", "*.pid"))
	if err != nil {
		return fmt.Errorf("looking for leftover children: %w", err)
	}
	for _, f := range files {
		if err := killLeftover(f); err != nil {
			return err
		}
	}
	return nil
}

// environment is what the state folder holds or would get, with what these options change of it. Nothing is written.
func (o Options) environment() (Environment, error) {
	e, err := Load(o.State)
	if errors.Is(err, fs.ErrNotExist) {
		return newEnvironment(o)
	}
	if err != nil {
		return Environment{}, err
	}
	return e.merge(o)
}

// ensureEnvironment makes or updates environment.json, and the artifacts that it names.
func ensureEnvironment(ctx context.Context, o Options, progress func(string)) (Environment, error) {
	e, err := o.environment()
	if err != nil {
		return Environment{}, err
	}
	progress("preparing the artifacts of Kubernetes " + e.Kubernetes)
	set, err := artifacts.Ensure(ctx, e.artifacts(o.State, o.Artifacts.Progress), e.Kubernetes)
	if err != nil {
		return Environment{}, fmt.Errorf("preparing the artifacts of Kubernetes %s: %w", e.Kubernetes, err)
	}
	e.Artifacts = *set
	if err := artifacts.AddUser(e.artifacts(o.State, nil), o.State); err != nil {
		return Environment{}, err
	}
	return e, e.Save(o.State)
}

// artifacts are the options with which an environment's artifacts are found or built.
func (e Environment) artifacts(state string, progress func(artifacts.Progress)) artifacts.Options {
	return artifacts.Options{Cache: e.Cache, Prebuilt: e.Prebuilt, Progress: progress, Made: Made(state)}
}
