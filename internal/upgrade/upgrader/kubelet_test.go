package upgrader

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestProcessStart(t *testing.T) {
	stat := "12 (a ) b) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 9 0 250 999 1"
	got, err := processStart(stat, "cpu 1 2\nbtime 1700000000\nprocesses 3\n")
	if want := time.Unix(1700000002, 500000000); !got.Equal(want) || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	for _, bad := range [][2]string{{stat, "cpu"}, {"12 (a) S 1", "btime 1\n"}, {"", "btime 1\n"},
		{strings.Replace(stat, " S ", " Z ", 1), "btime 1\n"}} {
		if got, err := processStart(bad[0], bad[1]); err == nil {
			t.Errorf("%q: %s", bad, got)
		}
	}
	self, errSelf := os.ReadFile("/proc/self/stat")
	system, errSystem := os.ReadFile("/proc/stat")
	if err := errors.Join(errSelf, errSystem); err != nil {
		t.Fatal(err)
	}
	if got, err := processStart(string(self), string(system)); err != nil || time.Since(got) < -clockError || time.Since(got) > time.Hour {
		t.Errorf("this process was started at %s, %v", got, err)
	}
}

// TestKubeletStart: the service manager is asked for the kubelet's process once, and again when that has ended or another has its number.
func TestKubeletStart(t *testing.T) {
	process, asked := startedProcess(t), 0
	k := kubelet{ask: func(context.Context) (int, error) {
		asked++
		return process.Pid, nil
	}}
	first, err := k.start(t.Context())
	again, errAgain := k.start(t.Context())
	if err != nil || errAgain != nil || time.Since(first) > time.Hour || !again.Equal(first) || asked != 1 {
		t.Fatalf("%s, %s: %v, %v; asked %d times", first, again, err, errAgain, asked)
	}
	k.started = first.Add(-time.Second)
	if at, err := k.start(t.Context()); err != nil || !at.Equal(first) || asked != 2 {
		t.Errorf("its number was another's: %s, %v; asked %d times", at, err, asked)
	}
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := process.Wait(); err != nil {
		t.Fatal(err)
	}
	if at, err := k.start(t.Context()); err == nil || asked != 3 {
		t.Errorf("it has ended: %s; asked %d times", at, asked)
	}
	process = startedProcess(t)
	if _, err := k.start(t.Context()); err != nil || asked != 4 {
		t.Errorf("it was started anew: %v; asked %d times", err, asked)
	}
	k.pid, k.ask = 0, func(context.Context) (int, error) { return 0, errors.New("the kubelet does not run") }
	if _, err := k.start(t.Context()); err == nil {
		t.Error("no error for a kubelet that does not run")
	}
}

// startedProcess is one that runs until the test ends, or until it is killed.
func startedProcess(t *testing.T) *os.Process {
	t.Helper()
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill() // it may have ended
		_, _ = c.Process.Wait()
	})
	return c.Process
}
