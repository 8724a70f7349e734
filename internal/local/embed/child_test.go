package embed

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/quorate/quorate/internal/program/process"
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
	var first process.ID
	eventually(t, "it runs", func() (ok bool) { first, ok = process.Read(c.pidFile()); return ok })
	if err := first.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var second process.ID
	eventually(t, "it runs again", func() (ok bool) { second, ok = process.Read(c.pidFile()); return ok && second != first })
	if err := c.trouble(); err != nil {
		t.Errorf("after one death: %v", err)
	}
	c.stop()
	if second.Alive() {
		t.Errorf("process %s lives on", second)
	}
	if _, err := os.Stat(c.pidFile()); err == nil {
		t.Error("its pid file is left")
	}
}

func TestChildThatIgnoresItsEnd(t *testing.T) {
	c := newChild(t, "stubborn", "/bin/sh", "-c", `trap "" TERM; echo deaf; exec sleep 1000`)
	if err := c.start(); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(c.folder, "stubborn.log")
	eventually(t, "it is deaf", func() bool { return strings.Contains(tail(log, 5), "deaf") })
	stubborn, _ := process.Read(c.pidFile())
	began := time.Now()
	c.stop()
	if stubborn.Alive() {
		t.Errorf("process %s lives on", stubborn)
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
	if err := record(c.pidFile(), left.Process.Pid); err != nil {
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
