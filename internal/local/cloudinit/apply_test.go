package cloudinit

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// world is a machine's root in a folder, and a shell that runs for real.
type world struct {
	System
	log   bytes.Buffer
	began []string
	name  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	w.System = System{
		Root: t.TempDir(), Log: &w.log,
		Began:       func(c string) { w.began = append(w.began, c) },
		SetHostname: func(name string) error { w.name = name; return nil },
		Run: func(ctx context.Context, argv []string, out io.Writer) (int, error) {
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, filepath.Dir(filepath.Dir(argv[1]))
			err := cmd.Run()
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				return exit.ExitCode(), nil
			}
			return 0, err
		},
	}
	if err := os.Mkdir(filepath.Join(w.Root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) apply(t *testing.T, lines ...string) *Failure {
	t.Helper()
	text := strings.ReplaceAll(cloudConfig(lines...), "ROOT", w.Root)
	c, err := Parse([]byte(text), meta)
	if err != nil {
		t.Fatal(err)
	}
	return c.Apply(t.Context(), w.System)
}

func (w *world) read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(w.Root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestOrder(t *testing.T) {
	w := newWorld(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	f := w.apply(t,
		"runcmd: ['cat ROOT/made ROOT/late > ROOT/out; cut -d: -f1 ROOT/etc/passwd >> ROOT/out']",
		"users: [{name: ops, no_create_home: true}]",
		"write_files: [{path: /made, content: 'file ', append: true, permissions: '0600', owner: '"+me.Uid+
			"'}, {path: /late, content: \"late\\n\", defer: true}]",
		"bootcmd: ['printf \"boot $INSTANCE_ID \" > ROOT/made']",
		"hostname: other",
	)
	if f != nil {
		t.Fatalf("%+v\n%s", f, w.log.String())
	}
	if got := w.read(t, "out"); got != "boot demo/cp-1 file late\nops\n" {
		t.Errorf("order: %q", got)
	}
	if info, err := os.Stat(filepath.Join(w.Root, "made")); err != nil || info.Mode() != 0o600 {
		t.Errorf("mode: %v, %v", info, err)
	}
	if w.name != "other" || w.read(t, "etc/hostname") != "other\n" {
		t.Errorf("host name: %q", w.name)
	}
}

func TestFailures(t *testing.T) {
	const done = "mkdir -p ROOT/run/cluster-api; echo success > ROOT" + Sentinel
	for name, c := range map[string]struct {
		lines   []string
		command string // empty: success
		output  string
	}{
		"all well":         {[]string{"runcmd: ['true', 'true']"}, "", ""},
		"one fails":        {[]string{"runcmd: ['echo earlier', 'echo why; false', 'echo later']"}, "echo why; false", "why"},
		"silent":           {[]string{"runcmd: ['exit 3']"}, "exit 3", "exit code 3"},
		"not found":        {[]string{"runcmd: [[no-such-program, x]]"}, "'no-such-program' 'x'", "not found"},
		"syntax":           {[]string{"runcmd: ['true', 'echo (']"}, "echo (", "rror"},
		"variables go on":  {[]string{"runcmd: ['X=1; cd /', '[ \"$X$PWD\" = 1/ ]']"}, "", ""},
		"block over items": {[]string{"runcmd: ['if true; then', 'true', 'fi']"}, "", ""},
		"output elsewhere": {[]string{"runcmd: ['exec >/dev/null 2>&1', 'false']"}, "false", "exit code 1"},
		"bootcmd":          {[]string{"bootcmd: ['echo early; false']", "runcmd: ['true']"}, "echo early; false", "early"},
		"sentinel":         {[]string{"runcmd: ['false', '" + done + "', 'false']"}, "", ""},
		"kubeadm fails": {[]string{"runcmd: ['false', 'echo kubeadm; false && echo success > ROOT" + Sentinel +
			"', 'echo later; false']"}, "echo kubeadm; false && echo success > ROOT" + Sentinel, "kubeadm"},
		"ends before the sentinel": {[]string{"runcmd: ['echo enough; exit 0', 'echo > ROOT" + Sentinel + "']"}, "echo > ROOT" + Sentinel,
			"without writing"},
		"fails before the sentinel": {[]string{"runcmd: ['echo enough; exit 9', 'echo > ROOT" + Sentinel + "']"}, "echo enough; exit 9",
			"enough"},
		"nobody of that name": {[]string{"write_files: [{path: /a, owner: 'nobody-here:root'}]"}, "write_files", "nobody-here"},
		"file in a file":      {[]string{"write_files: [{path: /a, content: x}, {path: /a/b}]"}, "write_files", "/a/b"},
		"colours are left out": {[]string{`runcmd: ["printf '\\033[0;32mgreen\\033[0m'; false"]`}, `printf '\033[0;32mgreen\033[0m'; false`,
			"green"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			f := w.apply(t, c.lines...)
			if c.command == "" {
				if f != nil {
					t.Errorf("%+v", f)
				}
				return
			}
			if f == nil {
				t.Fatal("taken for a success")
			}
			if want := strings.ReplaceAll(c.command, "ROOT", w.Root); f.Command != want {
				t.Errorf("command %q, want %q", f.Command, want)
			}
			if !strings.Contains(f.Output, c.output) || strings.ContainsAny(f.Output, "\x1e\x1b") || strings.Contains(f.Output, "earlier") {
				t.Errorf("output %q, want %q in it", f.Output, c.output)
			}
		})
	}
}

// TestUnits: units that commands write are noticed, wherever they lie and whoever links to them; what enabling built-in
// units leaves is no unit.
func TestUnits(t *testing.T) {
	const wants = "mkdir -p ROOT/etc/systemd/system/multi-user.target.wants; ln -s /lib/systemd/system/kubelet.service " +
		"ROOT/etc/systemd/system/multi-user.target.wants/"
	for name, c := range map[string]struct{ command, found string }{
		"nothing": {"true", ""},
		"a link":  {wants, ""},
		"drop-in": {wants + "; mkdir ROOT/etc/systemd/system/kubelet.service.d; echo > ROOT/etc/systemd/system/kubelet.service.d/20.conf",
			"/etc/systemd/system/kubelet.service.d/20.conf"},
		"of etcd": {wants + "; mkdir ROOT/etc/systemd/system/etcd.service.d; for f in etcd.service etcd.service.d/1.conf; do echo > " +
			"ROOT/etc/systemd/system/$f; done", ""},
		"of one boot": {"mkdir -p ROOT/run/systemd/system; echo > ROOT/run/systemd/system/agent.service", "/run/systemd/system/agent.service"},
		"else":        {"mkdir -p ROOT/etc/default ROOT/etc/systemd; echo > ROOT/etc/default/kubelet; echo > ROOT/etc/systemd/journald.conf", ""},
		"fails":       {"mkdir -p ROOT/run/systemd/system; echo > ROOT/run/systemd/system/agent.service; false", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			f := w.apply(t, "runcmd: ['"+c.command+"']")
			switch {
			case name == "fails":
				if f == nil || f.Unsupported != "" || f.Output != "exit code 1" {
					t.Errorf("%+v, want the command that failed", f)
				}
			case c.found == "":
				if f != nil {
					t.Errorf("%+v", f)
				}
			case f == nil || f.Unsupported != c.found || !strings.Contains(f.Output, "a command wrote "+c.found+": a local machine has no systemd"):
				t.Errorf("%+v, want %s to be named", f, c.found)
			}
		})
	}
}

func TestProgressAndTail(t *testing.T) {
	w := newWorld(t)
	f := w.apply(t, "runcmd: ['echo first', 'i=0; while [ $i -lt 2000 ]; do echo line $i ä; i=$((i+1)); done; false']")
	if f == nil || len(f.Output) > outputLimit || !strings.HasSuffix(f.Output, "line 1999 ä") || strings.Contains(f.Output, "first") {
		t.Errorf("the end of the output: %+v", f)
	}
	if len(w.began) != 2 || w.began[0] != "echo first" {
		t.Errorf("began: %q", w.began)
	}
	if log := w.log.String(); !strings.Contains(log, "first\n") || !strings.Contains(log, "line 7 ") || strings.Contains(log, "\x1e") {
		t.Errorf("log: %.200q", log)
	}
	if err := Sweep(w.Root); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(w.Root, scriptDir, "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("giving files to other users needs root")
	}
	w := newWorld(t)
	for name, text := range map[string]string{
		"passwd": "root:x:0:0:root:/root:/bin/bash\ntaken:x:1000:1000::/:/bin/sh\n", "group": "root:x:0:\nadm:x:4:syslog\n",
		"shadow": "root:*:::::::\n",
	} {
		if err := os.WriteFile(filepath.Join(w.Root, "etc", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f := w.apply(t,
		"groups: [{wheel: [root]}]",
		"users:",
		"- {name: ops, gecos: O, groups: 'adm, docker', shell: /bin/bash, ssh_authorized_keys: [ssh-ed25519 AAAA], sudo: 'ALL=(ALL) ALL', "+
			"passwd: $6$x, lock_passwd: false}",
		"- {name: daemon2, system: true, no_create_home: true}",
		"- {name: root, groups: adm}",
		"write_files: [{path: /owned, owner: '12:34'}, {path: /named, owner: 'ops:adm', defer: true}]",
	)
	if f != nil {
		t.Fatalf("%+v", f)
	}
	for path, want := range map[string]string{
		"etc/passwd": "root:x:0:0:root:/root:/bin/bash\ntaken:x:1000:1000::/:/bin/sh\n" +
			"ops:x:1001:1001:O:/home/ops:/bin/bash\ndaemon2:x:201:201::/home/daemon2:/bin/sh\n",
		"etc/group": "root:x:0:\nadm:x:4:syslog,ops,root\nwheel:x:1000:root\nops:x:1001:\n" +
			"docker:x:1002:ops\ndaemon2:x:201:\n",
		"etc/shadow":                        "root:*:::::::\nops:$6$x::0:99999:7:::\ndaemon2:!::0:99999:7:::\n",
		"home/ops/.ssh/authorized_keys":     "ssh-ed25519 AAAA\n",
		"etc/sudoers.d/90-cloud-init-users": "ops ALL=(ALL) ALL\n",
	} {
		if got := w.read(t, path); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", path, got, want)
		}
	}
	for path, mode := range map[string]os.FileMode{"home/ops/.ssh": 0o700, "home/ops/.ssh/authorized_keys": 0o600,
		"etc/sudoers.d/90-cloud-init-users": 0o440} {
		if info, err := os.Stat(filepath.Join(w.Root, path)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want %v", path, info, err, mode)
		}
	}
	for path, want := range map[string][2]uint32{"owned": {12, 34}, "named": {1001, 4}, "home/ops/.ssh/authorized_keys": {1001, 0}} {
		info, err := os.Stat(filepath.Join(w.Root, path))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != want[0] || st.Gid != want[1] {
			t.Errorf("%s belongs to %d:%d, want %v", path, st.Uid, st.Gid, want)
		}
	}
	if _, err := os.Stat(filepath.Join(w.Root, "home/daemon2")); err == nil {
		t.Error("a home that was not wanted")
	}
}
