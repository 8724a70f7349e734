package guest

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// etcdadmUnit is what etcdadm writes, in short.
const etcdadmUnit = `[Unit]
Description=etcd
Conflicts=etcd2.service

[Service]
EnvironmentFile=%s/etcd.env
ExecStart=/opt/bin/etcd

Type=notify
TimeoutStartSec=0
Restart=on-failure
RestartSec=5s

LimitNOFILE=65536
Nice=-10
MemoryLow=200M

[Install]
WantedBy=multi-user.target
`

func writeAll(t *testing.T, files map[string]string) {
	t.Helper()
	for path, text := range files {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLoadService: the unit as etcdadm writes it, with a drop-in that adds an environment and one that may be missing.
func TestLoadService(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "etcd.service")
	writeAll(t, map[string]string{
		file:              fmt.Sprintf(etcdadmUnit, dir),
		dir + "/etcd.env": "# a comment\nETCD_NAME=m1\n\nETCD_X=\"a b\"\n",
		filepath.Join(file+".d", "10-extra.conf"): "[Service]\nEnvironmentFile=-" + dir +
			"/extra.env\nEnvironmentFile=-/nowhere\nEnvironment=\"A=1\"\n",
		dir + "/extra.env":                         "ETCD_LISTEN_METRICS_URLS=http://10.0.0.1:2381\n",
		filepath.Join(file+".d", "ignored.backup"): "[Service]\nUser=nobody\n",
	})
	s, err := loadService(file, "/run/x")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(s.argv, []string{"/opt/bin/etcd"}) || !s.notifies || s.restart != restartOnFailure || s.delay != 5*time.Second {
		t.Errorf("%+v", s)
	}
	want := []string{"NOTIFY_SOCKET=/run/x", "A=1", "ETCD_NAME=m1", "ETCD_X=a b", "ETCD_LISTEN_METRICS_URLS=http://10.0.0.1:2381"}
	if !slices.Equal(s.env, want) {
		t.Errorf("environment %q, want %q", s.env, want)
	}
}

// TestLoadServiceRefuses: what would not be heeded is said, not skipped.
func TestLoadServiceRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"[Service]\nType=simple\n":                       "ExecStart is given 0 times",
		"[Service]\nExecStart=/bin/a\nUser=etcd\n":       "line 3: User=etcd is not known",
		"[Service]\nExecStart=/bin/a\nExecStart=/b\n":    "ExecStart is given 2 times",
		"[Service]\nExecStart=-/bin/a\n":                 "want a path",
		"[Service]\nExecStart=/bin/a \"b c\"\n":          "without quotes",
		"[Service]\nExecStart=/bin/a \\\n b\n":           "on one line",
		"[Service]\nExecStart=/a\nType=forking\n":        "Type is forking",
		"[Service]\nExecStart=/a\nRestart=on-abort\n":    "Restart is on-abort",
		"[Service]\nExecStart=/a\nRestartSec=soon\n":     "no time",
		"[Service]\nExecStart=/a\nRestartSec=-5s\n":      "no time",
		"[Service]\nExecStart=/a\nTimeoutStartSec=90s\n": "TimeoutStartSec=90s is not known",
		"[Service]\nExecStart=/a\nEnvironmentFile=/no\n": "reading an environment",
	} {
		file := filepath.Join(t.TempDir(), "etcd.service")
		writeAll(t, map[string]string{file: text})
		if _, err := loadService(file, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "etcd.service")
	writeAll(t, map[string]string{file: "[Service]\nExecStart=/a\n", file + ".d/1.conf": "[Service]\nExecStart=\nExecStart=/b\n"})
	if s, err := loadService(file, ""); err != nil || s.argv[0] != "/b" || s.restart != restartNever {
		t.Errorf("a list that is emptied: %+v, %v", s, err)
	}
}

func TestSpan(t *testing.T) {
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "100ms": 100 * time.Millisecond, "1min 5s": 65 * time.Second,
		"0": 0} {
		if got, err := span(text); got != want || err != nil {
			t.Errorf("%q is %s, %v; want %s", text, got, err, want)
		}
	}
}

// TestStartWaits: a start is over when the program says that it is ready, or when it has ended.
func TestStartWaits(t *testing.T) {
	dir := t.TempDir()
	u, _ := newTestUnit(t, "")
	u.file = filepath.Join(dir, "etcd.service")
	script := "while [ ! -e " + dir + "/go ]; do sleep 0.01; done; [ ! -e " + dir + "/fail ] || exit 7; [ ! -e " + dir +
		"/done ] || exit 0; exec sleep 1000"
	u.service = func() (service, error) {
		return service{argv: []string{"/bin/sh", "-c", script}, notifies: true, restart: restartOnFailure}, nil
	}
	units := &units{known: map[string]*unit{"test": u}}
	if got := systemctl(units, []string{"start", "test"}); got.Code != exitNotLoaded {
		t.Errorf("without a file: %+v", got)
	}
	writeAll(t, map[string]string{u.file: "", dir + "/fail": ""})
	start := func() chan answer {
		done := make(chan answer, 1)
		go func() { done <- systemctl(units, []string{"start", "test.service"}) }()
		return done
	}
	first := start()
	eventually(t, "it is being started", func() bool { return systemctl(units, []string{"is-active", "test"}).Out == "activating\n" })
	writeAll(t, map[string]string{dir + "/go": ""})
	if got := <-first; got.Code != exitFailed || !strings.Contains(got.Err, "exit code 7") {
		t.Errorf("an end before it was ready: %+v", got)
	}
	if err := os.Remove(dir + "/fail"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is started again after a failure", func() bool { s := u.state(); return s.pid != 0 && s.sub == "start" })
	second := start()
	eventually(t, "it is ready", func() bool { u.notified(); return u.state().active == "active" })
	if got := <-second; got.Code != 0 {
		t.Errorf("ready: %+v", got)
	}
	writeAll(t, map[string]string{dir + "/done": ""})
	if got := systemctl(units, []string{"restart", "test"}); got.Code != exitFailed {
		t.Errorf("an end without a failure before it was ready: %+v", got)
	}
	eventually(t, "it stays down after an end without a failure", func() bool { return u.state().active == "inactive" })
}

// TestWrittenUnits: a unit exists from the moment somebody writes its file, is started again after a failure, starts with the machine
// when it is enabled, and is gone with its file.
func TestWrittenUnits(t *testing.T) {
	dir, log := t.TempDir(), &buffer{}
	machine := func() *units {
		return &units{
			children: oneReaper(), dir: dir, run: t.TempDir(), known: map[string]*unit{},
			logTo: func(string) (io.Writer, error) { return log, nil },
		}
	}
	u := machine()
	call := func(args string) answer { return systemctl(u, strings.Fields(args)) }
	if got := call("start job"); got.Code != exitNotLoaded {
		t.Errorf("without a file: %+v", got)
	}
	writeAll(t, map[string]string{
		dir + "/job.service": "[Unit]\nStartLimitIntervalSec=0\n[Service]\nExecStart=/bin/sh " + dir +
			"/job WORD\nEnvironment=NAME=job\nRestart=on-failure\nRestartSec=10ms\n",
		dir + "/job": "echo begun $1 $NAME\n[ -e " + dir + "/go ] || exit 3\nexec sleep 1000\n",
	})
	for _, args := range []string{"daemon-reload", "enable job.service", "start job.service"} {
		if got := call(args); got.Code != 0 {
			t.Fatalf("%s: %+v", args, got)
		}
	}
	eventually(t, "it is started again after a failure", func() bool { return strings.Count(log.String(), "begun WORD job\n") >= 2 })
	writeAll(t, map[string]string{dir + "/go": ""})
	eventually(t, "it goes on", func() bool { return call("is-active job").Code == 0 })
	if got := call("show job -p LoadState,UnitFileState"); got.Out != "LoadState=loaded\nUnitFileState=enabled\n" {
		t.Errorf("%+v", got)
	}
	if got := call("stop job"); got.Code != 0 || call("is-active job").Code == 0 {
		t.Errorf("stop: %+v", got)
	}
	u = machine() // as after a restart of the machine
	if names, err := u.enabled(); err != nil || !slices.Equal(names, []string{"job"}) {
		t.Errorf("enabled: %v, %v", names, err)
	}
	if got := call("disable --now job"); got.Code != 0 {
		t.Errorf("disable: %+v", got)
	}
	if err := os.Remove(dir + "/job.service"); err != nil {
		t.Fatal(err)
	}
	if got := call("start job"); got.Code != exitNotLoaded {
		t.Errorf("its file is gone: %+v", got)
	}
	for _, name := range []string{"../job", "job@1", "a/b", ".hidden", "-x"} {
		if got, err := u.find(name); got != nil || err != nil {
			t.Errorf("%s is no name of a unit: %v, %v", name, got, err)
		}
	}
}
