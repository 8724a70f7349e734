package artifacts

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quorate/quorate/internal/local/artifacts/cache"
)

// ErrNoGo is wrapped by errors about a Go toolchain that is missing or too old, when something must be built.
var ErrNoGo = errors.New("a Go toolchain is needed to build artifacts")

// toolchain is the host's Go.
type toolchain struct {
	digest  cache.Digest // of what it puts into programs: its version and the target
	err     error        // why there is none that can be used
	caches  []string     // folders in which Go keeps compiled packages, and modules
	command string
	arch    string // what it builds for; empty: this host's architecture
}

// fixed is the environment that decides what Go builds. The user's own flags, workspace and target must not.
var fixed = []string{
	"GOFLAGS=-mod=readonly", "GOWORK=off", "GO111MODULE=on", "CGO_ENABLED=0",
	"GOOS=linux", "GOAMD64=v1", "GOARM64=v8.0",
}

// dropped are variables that are taken away rather than fixed.
var dropped = []string{"GOEXPERIMENT", "GOROOT", "GOTOOLDIR", "GO_LDFLAGS", "GODEBUG", "GOFIPS140", "GOCOVERDIR", "PWD"}

// environment is that of a Go that builds for an architecture; empty: for this host's.
func environment(arch string) []string {
	var env []string
	fixed := append(slices.Clone(fixed), "GOARCH="+cmp.Or(arch, runtime.GOARCH))
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		decided := slices.ContainsFunc(fixed, func(f string) bool { return strings.HasPrefix(f, name+"=") })
		if !decided && !slices.Contains(dropped, name) {
			env = append(env, variable)
		}
	}
	return append(env, fixed...)
}

// goVersion is the version of Go that all pins ask for.
func goVersion() (string, error) {
	p, err := readPin("containerd")
	if err != nil {
		return "", err
	}
	lines := p.directives("go")
	if len(lines) != 1 || len(lines[0]) != 1 {
		return "", errors.New("the pins name no version of Go")
	}
	return lines[0][0], nil
}

// findToolchain asks the host's Go for its version, inside a module like those that will be built: Go may fetch a newer
// toolchain of itself for it.
func findToolchain(ctx context.Context) toolchain {
	version, err := goVersion()
	if err != nil {
		return toolchain{err: err}
	}
	command, err := exec.LookPath("go")
	if err != nil {
		return toolchain{err: fmt.Errorf("%w: go is not in PATH; get Go %s or later from https://go.dev/dl/", ErrNoGo, version)}
	}
	folder, err := os.MkdirTemp("", "quorate-go-")
	if err != nil {
		return toolchain{err: fmt.Errorf("asking Go for its version: %w", err)}
	}
	defer func() { _ = os.RemoveAll(folder) }() // an empty module in the temporary folder
	module := fmt.Sprintf("module artifacts\n\ngo %s\n", version)
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte(module), 0o644); err != nil {
		return toolchain{err: fmt.Errorf("asking Go for its version: %w", err)}
	}
	cmd := exec.CommandContext(ctx, command, "env", "-json", "GOVERSION", "GOCACHE", "GOMODCACHE")
	cmd.Dir, cmd.Env = folder, environment("")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		return toolchain{err: fmt.Errorf("%w, version %s or later: %s says: %s (%w)", ErrNoGo, version, command,
			strings.TrimSpace(stderr.String()), err)}
	}
	var answer struct{ GOVERSION, GOCACHE, GOMODCACHE string }
	if err := json.Unmarshal(output, &answer); err != nil {
		return toolchain{err: fmt.Errorf("asking %s for its version: %w", command, err)}
	}
	if tooOld(answer.GOVERSION) {
		return toolchain{err: fmt.Errorf("%w, version %s or later: %s is %s; get one from https://go.dev/dl/", ErrNoGo, version, command,
			answer.GOVERSION)}
	}
	return toolchain{
		command: command,
		digest:  cache.Sum("go", answer.GOVERSION, runtime.GOARCH),
		caches:  []string{answer.GOCACHE, answer.GOMODCACHE},
	}
}

// tooOld reports whether a Go is from before 1.21: such a Go does not know that a go.mod may ask for a later one.
func tooOld(version string) bool {
	var minor int
	if _, err := fmt.Sscanf(version, "go1.%d", &minor); err != nil {
		return false // a version that is being developed
	}
	return minor < 21
}

// run executes Go in a folder. Its stderr goes line by line to each, and the end of it into the error.
func (t toolchain) run(ctx context.Context, folder string, each func(line string), arguments ...string) ([]byte, error) {
	if t.err != nil {
		return nil, t.err
	}
	cmd := exec.CommandContext(ctx, t.command, arguments...)
	cmd.Dir, cmd.Env = folder, environment(t.arch)
	// Go starts compilers and linkers: when the work is given up, all of them must end.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	messages := &lines{each: each}
	cmd.Stderr = messages
	output, err := cmd.Output()
	messages.end()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", arguments[0], err, messages.tail())
	}
	return output, nil
}

// lines splits what is written to it into lines and keeps the last ones.
type lines struct {
	each func(string)
	rest []byte
	last []string
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		line, rest, complete := bytes.Cut(l.rest, []byte("\n"))
		if !complete {
			return len(p), nil
		}
		l.rest = rest
		l.take(string(line))
	}
}

func (l *lines) end() {
	if len(l.rest) > 0 {
		l.take(string(l.rest))
		l.rest = nil
	}
}

func (l *lines) take(line string) {
	l.last = append(l.last, line)
	if len(l.last) > 20 {
		l.last = l.last[1:]
	}
	if l.each != nil {
		l.each(line)
	}
}

func (l *lines) tail() string { return strings.Join(l.last, "\n") }
