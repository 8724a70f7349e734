package guest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// buffer is safe for concurrent use.
type buffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

func TestLogKeepsOneOlderPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLog(path, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"aaaaaa\n", "bbb\n", "cc\n", "dddddddddddddddd\n", "e\n"} {
		if n, err := l.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	now, _ := os.ReadFile(path)
	before, _ := os.ReadFile(path + ".1")
	if string(now) != "e\n" || string(before) != "dddddddddddddddd\n" {
		t.Errorf("now %q, before %q", now, before)
	}
	again, err := openLog(path, 10)
	if err != nil || again.size != 2 {
		t.Errorf("opened again: %+v, %v", again, err)
	}
}

func TestEnvironmentFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "env")
	text := "# KUBELET_EXTRA_ARGS=no\nOTHER=x\nKUBELET_EXTRA_ARGS=\"--a=b --c\"\nPLAIN=--d\n" +
		"KUBELET_KUBEADM_ARGS=\"--eviction-hard=\\\"memory.available<1Gi\\\" --v=2\"\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for variable, want := range map[string]string{"KUBELET_EXTRA_ARGS": "--a=b --c", "PLAIN": "--d", "NONE": "",
		"KUBELET_KUBEADM_ARGS": `--eviction-hard="memory.available<1Gi" --v=2`} {
		if got, err := environmentFile(path, variable); got != want || err != nil {
			t.Errorf("%s: %q, %v", variable, got, err)
		}
	}
	if got, err := environmentFile(path+"-none", "PLAIN"); got != "" || err != nil {
		t.Errorf("a missing file: %q, %v", got, err)
	}
}

// oneReaper: a process has one collector of exits, or they take them from one another.
var oneReaper = sync.OnceValue(func() *children {
	c := newChildren()
	go c.reap()
	return c
})

// newTestUnit is supervised for the rest of the test's process; it stops at the end of the test.
func newTestUnit(t *testing.T, script string) (*unit, *buffer) {
	t.Helper()
	c, log := oneReaper(), &buffer{}
	u := (&unit{
		name: "test", description: "A test", children: c, log: log, delay: time.Millisecond,
		service: func() (service, error) { return service{argv: []string{"/bin/sh", "-c", script}}, nil },
		enabled: filepath.Join(t.TempDir(), "wants", "test.service"),
	}).init()
	go u.supervise()
	t.Cleanup(func() {
		if err := u.stop(); err != nil {
			t.Error(err)
		}
	})
	return u, log
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !done() {
		select {
		case <-deadline.C:
			t.Fatalf("never: %s", what)
		case <-again.C:
		}
	}
}

func TestUnitIsStartedAgain(t *testing.T) {
	u, log := newTestUnit(t, "echo begun; exit 3")
	if s := u.state(); s.active != "inactive" {
		t.Errorf("before its start: %+v", s)
	}
	u.start()
	eventually(t, "three starts", func() bool { return strings.Count(log.String(), "begun\n") >= 3 })
	eventually(t, "its end is known", func() bool { return u.state().last == "exit code 3" })
}

func TestSystemctl(t *testing.T) {
	u, _ := newTestUnit(t, "exec sleep 1000")
	units := &units{known: map[string]*unit{"test": u}}
	for _, c := range []struct {
		args     string
		code     int
		out, err string
	}{
		{"is-active test", 3, "inactive\n", ""},
		{"is-enabled test.service", 1, "disabled\n", ""},
		{"enable test", 0, "", ""},
		{"is-enabled test", 0, "enabled\n", ""},
		{"enable --now test", 0, "", ""},
		{"disable test", 0, "", ""},
		{"is-enabled -q test", 1, "", ""},
		{"daemon-reload", 0, "", ""},
		{"start none", 5, "", "Failed to start none.service: Unit none.service not found.\n"},
		{"stop none", 5, "", "Failed to stop none.service: Unit none.service not loaded.\n"},
		{"enable none", 1, "", "Failed to enable unit: Unit file none.service does not exist.\n"},
		{"status none", 4, "", "Unit none.service could not be found.\n"},
		{"is-active firewalld", 3, "inactive\n", ""},
		{"is-enabled none", 1, "", "Failed to get unit file state for none.service: No such file or directory\n"},
		{"start", 1, "", "Too few arguments.\n"},
		{"start --weird test", 1, "", "systemctl: unrecognized option '--weird'\n"},
		{"show test -p LoadState --property=UnitFileState", 0, "LoadState=loaded\nUnitFileState=disabled\n", ""},
	} {
		got := systemctl(units, strings.Fields(c.args))
		if got != (answer{Out: c.out, Err: c.err, Code: c.code}) {
			t.Errorf("%s: %+v", c.args, got)
		}
	}
	if got := systemctl(units, []string{"isolate", "x"}); got.Code != 1 || !strings.Contains(got.Err, "daemon-reload") {
		t.Errorf("an unknown verb: %+v", got)
	}
	active := func() bool { return systemctl(units, []string{"is-active", "test"}).Code == 0 }
	eventually(t, "active", active)
	first := u.state().pid
	if got := systemctl(units, []string{"restart", "test"}); got.Code != 0 {
		t.Errorf("restart: %+v", got)
	}
	eventually(t, "active again", active)
	if second := u.state().pid; second == first {
		t.Error("restart kept the process")
	}
	if got := systemctl(units, []string{"status", "test"}); got.Code != 0 || !strings.Contains(got.Out, "Active: active (running)") {
		t.Errorf("status: %+v", got)
	}
	if got := systemctl(units, []string{"stop", "test"}); got.Code != 0 || active() {
		t.Errorf("stop: %+v", got)
	}
}

// TestDataThatCannotBeRead: nothing of it is carried out, and what is wrong is told with its place and what would do.
func TestDataThatCannotBeRead(t *testing.T) {
	m := &machine{boot: &Boot{Name: "one"}}
	for data, want := range map[string]Bootstrap{
		"#cloud-config\nruncmd: rm\n": {Output: "line 2: runcmd: is a value of type str, must be a list"},
		"runcmd: [rm]\n": {
			Output:      "line 1: user data without the header #cloud-config is not supported: the data must begin with #cloud-config",
			Unsupported: "user data without the header #cloud-config",
		},
	} {
		want.Phase, want.Command = Failed, "reading the bootstrap data"
		if got := m.carryOut(t.Context(), []byte(data)); got != want {
			t.Errorf("%q: %+v, want %+v", data, got, want)
		}
	}
}

func TestOverlayOptionsAreEscaped(t *testing.T) {
	if got := escape(`/a:b,c\d`); got != `/a\:b\,c\\d` {
		t.Errorf("escaped %q", got)
	}
}
