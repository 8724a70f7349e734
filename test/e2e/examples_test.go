//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/local/artifacts"
)

// examples runs the examples of all help texts that change nothing but files in the working folder, as they are written, on a
// cluster that has the name that they use.
func examples(t *testing.T, env *environment) {
	env.up(t, "demo")
	shell := newExampleShell(t, env)
	ran := 0
	for _, line := range helpExamples(t, env, nil) {
		kind := exampleKind(line)
		if kind == changes {
			t.Logf("not run, as it changes something: %s", line)
			continue
		}
		ran++
		if err := shell.run(line, kind == goesOn); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if ran < 20 {
		t.Errorf("only %d examples were run", ran)
	}
	t.Logf("%d examples were run", ran)
	env.quorate(t, "down", "demo")
}

// What an example is.
type example int

const (
	changes example = iota
	shows
	goesOn // until it is interrupted
)

var (
	showing   = regexp.MustCompile(`\bquorate (status|explain|kubeconfig|kubectl|logs|shell|version|machine list|artifacts list)\b|--dry-run`)
	following = regexp.MustCompile(`--watch| -f( |$)`)
)

func exampleKind(line string) example {
	switch {
	case !showing.MatchString(line):
		return changes
	case following.MatchString(line) && !strings.Contains(line, "quorate up"):
		return goesOn
	}
	return shows
}

// helpExamples are the examples of a command and of those below it.
func helpExamples(t *testing.T, env *environment, command []string) []string {
	t.Helper()
	help := env.quorate(t, append(append([]string{}, command...), "--help")...)
	var lines []string
	section := ""
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n")
		words := strings.Fields(line)
		switch {
		case line != "" && line[0] != ' ':
			section = line
		case len(words) == 0:
		case section == "Examples:":
			lines = append(lines, strings.TrimSpace(line))
		case section == "Available Commands:" && words[0] != "help" && words[0] != "completion":
			lines = append(lines, helpExamples(t, env, append(append([]string{}, command...), words[0]))...)
		}
	}
	return lines
}

// exampleShell runs lines as a user's shell in the repository does, with a home of its own.
type exampleShell struct {
	folder string
	env    []string
	// limit is how long a command may take; 0: a minute.
	limit time.Duration
}

func newExampleShell(t *testing.T, env *environment) exampleShell {
	t.Helper()
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(folder, ".kube"), 0o700),
		os.Symlink(filepath.Join(repository, "examples"), filepath.Join(folder, "examples")), os.Symlink(filepath.Join(repository, "config"),
			filepath.Join(folder, "config"))); err != nil {
		t.Fatal(err)
	}
	var sets []struct {
		Set struct {
			Management string `json:"management"`
		} `json:"set"`
	}
	if err := json.Unmarshal([]byte(env.quorate(t, "artifacts", "list", "-o", "json")), &sets); err != nil {
		t.Fatal(err)
	}
	cache, err := artifacts.Options{}.CacheFolder() // of the real home
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Dir(env.binary) + ":" + os.Getenv("PATH")
	for _, s := range sets {
		if s.Set.Management != "" {
			path = s.Set.Management + ":" + path // kubectl
			break
		}
	}
	return exampleShell{folder: folder, env: append(os.Environ(), "QUORATE_STATE="+env.state, "QUORATE_AUDIT=1", "QUORATE_CACHE="+cache,
		"HOME="+folder, "PATH="+path)}
}

// run runs a line to its end, or, where it goes on, for some seconds, in which it must show something.
func (s exampleShell) run(line string, goesOn bool) error {
	if before, rest, piped := strings.Cut(line, " | "); piped {
		if program := strings.Fields(rest)[0]; !installed(program) {
			line = before
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(s.limit, time.Minute))
	if goesOn {
		ctx, cancel = context.WithTimeout(context.Background(), 5*time.Second)
	}
	defer cancel()
	c := exec.CommandContext(ctx, "bash", "-c", "set -o pipefail; "+line)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Dir, c.Env = s.folder, s.env
	c.WaitDelay = time.Second
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGINT) }
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	err := c.Run()
	switch {
	case goesOn && ctx.Err() != nil && out.Len() > 0:
		return nil
	case goesOn && ctx.Err() != nil:
		return errors.New("it shows nothing")
	case err != nil:
		return errors.New(err.Error() + ": " + out.String() + errs.String())
	}
	return nil
}

func installed(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
