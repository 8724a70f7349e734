package embed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

func newChild(t *testing.T, name string, argv ...string) *child {
	t.Helper()
	s := newStarter()
	c := &child{program: program{name: name, path: argv[0], args: argv[1:]}, starter: s, folder: t.TempDir(), log: logr.Discard()}
	t.Cleanup(func() {
		c.stop()
		s.close()
	})
	return c
}

// eventually fails the test when a condition does not come true.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	// Long, for hosts that are busy with machines.
	deadline := time.After(4 * time.Minute)
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("in four minutes not: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestChildLivesAsLongAsItIsWanted(t *testing.T) {
	c := newChild(t, "sleeper", "/bin/sleep", "1000")
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	var first int
	eventually(t, "it runs", func() bool { pid, ok := readPID(c.pidFile()); first = pid; return ok })
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var second int
	eventually(t, "it runs again", func() bool { pid, ok := readPID(c.pidFile()); second = pid; return ok && pid != first })
	if err := c.trouble(); err != nil {
		t.Errorf("after one death: %v", err)
	}
	c.stop()
	if err := syscall.Kill(second, 0); err == nil {
		t.Errorf("process %d lives on", second)
	}
	if _, err := os.Stat(c.pidFile()); err == nil {
		t.Error("its pid file is left")
	}
}

func TestChildThatIgnoresItsEnd(t *testing.T) {
	c := newChild(t, "stubborn", "/bin/sh", "-c", `trap "" TERM; echo deaf; while :; do sleep 1000; done`)
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(c.folder, "stubborn.log")
	eventually(t, "it is deaf", func() bool { return strings.Contains(tail(log, 5), "deaf") })
	pid, _ := readPID(c.pidFile())
	began := time.Now()
	c.stop()
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d lives on", pid)
	}
	if took := time.Since(began); took < endGrace/2 {
		t.Errorf("it was made to end after %s, without its %s", took, endGrace)
	}
}

func TestHopelessChildSaysWhy(t *testing.T) {
	c := newChild(t, "broken", "/bin/sh", "-c", "echo the disk is made of cheese >&2; exit 3")
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is trouble", func() bool { return c.trouble() != nil })
	for _, part := range []string{"broken died", "exit status 3", "made of cheese"} {
		if got := c.trouble().Error(); !strings.Contains(got, part) {
			t.Errorf("%q does not say %q", got, part)
		}
	}
}

func TestLeftoverIsEnded(t *testing.T) {
	c := newChild(t, "sleeper", "/bin/sleep", "1000")
	left := exec.Command("/bin/sleep", "1000")
	if err := left.Start(); err != nil {
		t.Fatal(err)
	}
	if err := writePID(c.pidFile(), left.Process.Pid); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- left.Wait() }()
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the leftover lives on")
	}
}

func TestPID(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	if _, ok := readPID(file); ok {
		t.Error("found a process without a file")
	}
	if err := writePID(file, os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if pid, ok := readPID(file); !ok || pid != os.Getpid() {
		t.Errorf("process %d, %t; want this one", pid, ok)
	}
	started, err := startTime(os.Getpid())
	if err != nil || started == 0 {
		t.Fatalf("started at %d, %v", started, err)
	}
	for _, other := range []string{"", "x", "1", "1 1", "0 0"} {
		if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		if pid, ok := readPID(file); ok {
			t.Errorf("found process %d by %q", pid, other)
		}
	}
}

func TestEndedProcessIsNotFound(t *testing.T) {
	cmd := exec.Command("/bin/true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an ended process that nobody waited for counts as ended", func() bool {
		_, err := startTime(cmd.Process.Pid)
		return err != nil
	})
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// A process whose first thread has ended looks like an ended one, and still has its ports.
func TestProcessLivesAsLongAsItsThreads(t *testing.T) {
	cmd := exec.Command(os.Args[0], "headless")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its first thread has ended", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") Z ")
	})
	if _, err := startTime(cmd.Process.Pid); err != nil {
		t.Errorf("while other threads live: %v", err)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has ended", func() bool {
		_, err := startTime(cmd.Process.Pid)
		return err != nil
	})
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
