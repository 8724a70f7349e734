package balancer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/program/process"
)

// configured is the configuration file of a process that is not started yet.
func configured(t *testing.T, backends ...Backend) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "alpha.json")
	if err := (Config{Listen: freeAddress(t), Backends: backends}).Save(file); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Stop(context.Background(), file); err != nil {
			t.Error(err)
		}
	})
	return file
}

// started runs the process of a configuration file; the channel is closed when it has ended.
func started(t *testing.T, file string) (ended chan struct{}) {
	t.Helper()
	if err := Start(context.Background(), os.Args[0], file); err != nil {
		t.Fatal(err)
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		if err := Wait(context.Background(), file); err != nil {
			t.Error(err)
		}
	}()
	return ended
}

func TestAProcessIsStartedFoundAndStopped(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	file := configured(t)
	if pid, ok := Running(file); ok {
		t.Fatalf("process %d is found before there is one", pid)
	}
	ended := started(t, file)
	s, err := ReadStatus(file)
	pid, ok := Running(file)
	if !ok || err != nil || pid != s.PID || s.Listen == "" {
		t.Fatalf("process %d %v, status %+v, %v: want one that listens", pid, ok, s, err)
	}
	if session, err := getsid(pid); err != nil || session != pid {
		t.Errorf("its session is %d, %v, want its own: it must outlive its parent's terminal", session, err)
	}
	if err := Start(ctx, os.Args[0], file); err == nil || !strings.Contains(err.Error(), "another process serves") {
		t.Errorf("a second process for the same endpoint gave %v", err)
	}
	if again, ok := Running(file); !ok || again != pid {
		t.Errorf("after that process %d %v is found, want %d", again, ok, pid)
	}
	start := time.Now()
	if err := Stop(ctx, file); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took >= stopTimeout {
		t.Errorf("it ended after %s, want at SIGTERM", took)
	}
	<-ended
	if _, ok := Running(file); ok {
		t.Error("it is found after its end")
	}
	if err := Stop(ctx, file); err != nil {
		t.Errorf("stopping what has ended gave %v", err)
	}
}

func getsid(pid int) (int, error) {
	id, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(id), nil
}

func TestTheEndOfAProcessIsNoticed(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	file := configured(t)
	ended := started(t, file)
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if err := Wait(short, file); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("waiting for a process that lives gave %v", err)
	}
	pid, _ := Running(file)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-ended
	// It left everything behind; the next one takes over.
	if err := Start(ctx, os.Args[0], file); err != nil {
		t.Errorf("starting again after a kill: %v", err)
	}
}

func TestAProcessThatDoesNotListenToSIGTERMIsKilled(t *testing.T) {
	t.Parallel()
	file := configured(t)
	if err := Start(context.Background(), os.Args[0], file); err != nil {
		t.Fatal(err)
	}
	pid, _ := Running(file)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := Stop(context.Background(), file); err != nil {
		t.Fatal(err)
	}
	if _, ok := Running(file); ok {
		t.Error("it is still there")
	}
}

func TestANumberThatPassedToAnotherProcessIsNotTakenForOurs(t *testing.T) {
	t.Parallel()
	file := configured(t)
	me, err := process.Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	later := me
	later.Began++
	for _, test := range []struct {
		content string
		want    bool
	}{{me.String(), true}, {later.String(), false}} {
		if err := os.WriteFile(PIDFile(file), []byte(test.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := Running(file); ok != test.want {
			t.Errorf("%s: found is %v, want %v", test.content, ok, test.want)
		}
	}
	if err := os.Remove(PIDFile(file)); err != nil { // this test's own number: nothing may stop it
		t.Fatal(err)
	}
}

func TestStartSaysWhyAProcessDoesNotServe(t *testing.T) {
	t.Parallel()
	first := configured(t)
	if err := Start(context.Background(), os.Args[0], first); err != nil {
		t.Fatal(err)
	}
	config, err := Load(first)
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(t.TempDir(), "bravo.json")
	if err := config.Save(second); err != nil {
		t.Fatal(err)
	}
	if err := Start(context.Background(), os.Args[0], second); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("an address that is taken gave %v", err)
	}
	if err := Start(context.Background(), "/no/such/program", second); err == nil || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("a program that is not there gave %v", err)
	}
}

func TestAProcessEndsWhenNobodyWantsIt(t *testing.T) {
	t.Parallel()
	file := configured(t)
	ended := started(t, file)
	start := time.Now()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(orphaned + 5*time.Second):
		t.Fatal("its configuration is gone and it lives on")
	}
	if took := time.Since(start); took < orphaned-look {
		t.Errorf("it ended after %s, want it to wait %s for the file to return", took, orphaned)
	}
}
