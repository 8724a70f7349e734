package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Called with the argument headless, this program ends its first thread at once, and itself when standard input ends.
// An init function runs on that thread.
func init() {
	if len(os.Args) != 2 || os.Args[1] != "headless" {
		return
	}
	runtime.LockOSThread()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func identify(t *testing.T, pid int) ID {
	t.Helper()
	p, err := Identify(pid)
	must(t, err)
	if !p.Alive() {
		t.Fatalf("process %s does not run", p)
	}
	return p
}

// start runs a command until the test ends.
func start(t *testing.T, argv ...string) (*exec.Cmd, ID) {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, identify(t, cmd.Process.Pid)
}

// unreaped waits until a process has ended, and leaves it unreaped.
func unreaped(t *testing.T, pid int) {
	t.Helper()
	must(t, unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil))
}

func TestNoProcessIsTakenForAnother(t *testing.T) {
	me := identify(t, os.Getpid())
	if again := identify(t, os.Getpid()); again != me {
		t.Errorf("the same process is %s and %s", me, again)
	}
	later, rebooted := me, me
	later.Began++
	rebooted.Boot = "another"
	for name, other := range map[string]ID{"a reused number": later, "another boot": rebooted, "no process": {}} {
		if other.Alive() {
			t.Errorf("%s is taken for this process", name)
		}
		if err := other.Wait(t.Context()); err != nil {
			t.Errorf("%s: waiting for its end: %v", name, err)
		}
		// This test's own process would notice.
		if err := other.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%s: a signal gave %v", name, err)
		}
		if err := other.End(t.Context(), time.Second, time.Second); err != nil {
			t.Errorf("%s: ending it: %v", name, err)
		}
	}
}

func TestFilesHoldIdentities(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	if p, ok := Read(file); ok {
		t.Errorf("found %s without a file", p)
	}
	me := identify(t, os.Getpid())
	for text, want := range map[string]bool{
		me.String():          true,
		me.String() + "\n":   true,
		me.String() + "1\n":  false, // another start
		me.String() + " 1\n": false,
		fmt.Sprintf("%d x %d\n", me.PID, me.Began):      false, // another boot
		fmt.Sprintf("%d\n", me.PID):                     false,
		fmt.Sprintf("0 %s %d\n", me.Boot, me.Began):     false,
		fmt.Sprintf("-%d %s %d\n", me.PID, me.Boot, 1):  false,
		fmt.Sprintf("%d %s start\n", me.PID, me.Boot):   false,
		fmt.Sprintf("first %s %d\n", me.Boot, me.Began): false,
		"": false,
	} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if p, ok := Read(file); ok != want || ok && p != me {
			t.Errorf("%q: %s, found: %t, want %t", text, p, ok, want)
		}
	}
}

func TestAnEndedProcessThatIsNotReapedHasEnded(t *testing.T) {
	cmd, p := start(t, "/bin/sleep", "1000")
	must(t, cmd.Process.Kill())
	unreaped(t, cmd.Process.Pid)
	if p.Alive() {
		t.Error("it is taken for alive")
	}
	if _, err := Identify(cmd.Process.Pid); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("identifying it gave %v, want that there is no such process", err)
	}
	must(t, p.Wait(t.Context()))
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal gave %v", err)
	}
}

// A process whose first thread has ended looks like an ended one, and still has its ports.
func TestAProcessLivesAsLongAsItsThreads(t *testing.T) {
	cmd := exec.Command(os.Args[0], "headless")
	stdin, err := cmd.StdinPipe()
	must(t, err)
	must(t, cmd.Start())
	deadline := time.After(time.Minute)
	for headless := false; !headless; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		must(t, err)
		headless = strings.Contains(string(stat), ") Z ")
		select {
		case <-deadline:
			t.Fatal("its first thread does not end")
		case <-time.After(time.Millisecond):
		}
	}
	p := identify(t, cmd.Process.Pid)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while other threads live, waiting for its end gave %v", err)
	}
	must(t, stdin.Close())
	must(t, p.Wait(t.Context()))
	if p.Alive() {
		t.Error("after its end it is taken for alive")
	}
	must(t, cmd.Wait())
}

func TestItsEndIsWaitedFor(t *testing.T) {
	cmd, p := start(t, "/bin/sleep", "1000")
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() { stopped <- p.Wait(ctx) }()
	cancel()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended, waiting gave %v", err)
	}
	go func() { stopped <- p.Wait(t.Context()) }()
	must(t, p.Signal(syscall.SIGKILL))
	must(t, <-stopped)
	if err := cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
}

// deaf is a script that ignores SIGTERM.
const deaf = "trap '' TERM; echo; exec sleep 1000"

// shell runs a script until the test ends, and returns once it has written a line.
func shell(t *testing.T, script string) (*exec.Cmd, ID) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // and what it started
		_ = cmd.Wait()
	})
	_, err = out.Read(make([]byte, 1))
	must(t, err)
	return cmd, identify(t, cmd.Process.Pid)
}

func TestAProcessIsEnded(t *testing.T) {
	for _, test := range []struct {
		name, script string
		orderly      time.Duration
		want         syscall.Signal
	}{
		{"in good order", "echo; exec sleep 1000", time.Minute, syscall.SIGTERM},
		{"killed when it ignores SIGTERM", deaf, 50 * time.Millisecond, syscall.SIGKILL},
		{"killed at once", "echo; exec sleep 1000", 0, syscall.SIGKILL},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd, p := shell(t, test.script)
			must(t, p.End(t.Context(), test.orderly, time.Minute))
			state, err := cmd.Process.Wait()
			must(t, err)
			if got := state.Sys().(syscall.WaitStatus).Signal(); got != test.want {
				t.Errorf("it was ended by %s, want %s", got, test.want)
			}
		})
	}
}

func TestEndingStopsWithItsContext(t *testing.T) {
	_, p := shell(t, deaf)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.End(ctx, time.Minute, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it gave %v", err)
	}
}

// TestReadWithoutBoot: what an earlier version wrote is known after an update.
func TestReadWithoutBoot(t *testing.T) {
	me, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "pid")
	for text, want := range map[string]bool{
		fmt.Sprintf("%d %d\n", me.PID, me.Began):   true,
		fmt.Sprintf("%d %d\n", me.PID, me.Began+1): false,
		fmt.Sprintf("%d\n", me.PID):                false,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, ok := Read(file); ok != want || ok && p != me {
			t.Errorf("%q is %v, %t", text, p, ok)
		}
	}
}
