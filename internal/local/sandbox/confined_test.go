package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/local/sandbox/guest"
)

const precious = "precious\n"

// hostFile is a file of the host that a machine must neither change nor read.
func hostFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a-file-of-the-host")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if now, err := os.ReadFile(path); err != nil || string(now) != text {
			t.Errorf("the host's file is now %q, %v", now, err)
		}
	})
	return path
}

// hostile are things that root of a machine can put in the place of a file.
func hostile(t *testing.T, path, outside string) map[string]func() {
	t.Helper()
	try := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	up := strings.Repeat("../", strings.Count(path, "/"))
	return map[string]func(){
		"link":          func() { try(os.Symlink(outside, path)) },
		"relative link": func() { try(os.Symlink(up+strings.TrimPrefix(outside, "/"), path)) },
		"broken link":   func() { try(os.Symlink("/does/not/exist", path)) },
		"pipe":          func() { try(unix.Mkfifo(path, 0o600)) },
		"folder":        func() { try(os.MkdirAll(filepath.Join(path, "full"), 0o700)) },
	}
}

// soon fails a test whose function does not return: opening a pipe waits for its other end.
func soon(t *testing.T, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("it does not return")
	}
}

func machineFolder(t *testing.T) folder {
	t.Helper()
	f := folder(filepath.Join(t.TempDir(), "machine"))
	for _, dir := range []string{filepath.Join(f.disk(), "etc"), f.logs(), f.shared()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// The host writes a machine's name servers at each start, whatever the machine has made of the file.
func TestRefreshStaysInTheMachine(t *testing.T) {
	for name := range hostile(t, "", "") {
		t.Run(name, func(t *testing.T) {
			f := machineFolder(t)
			path := filepath.Join(f.disk(), "etc/resolv.conf")
			hostile(t, path, hostFile(t, precious))[name]()
			soon(t, func() {
				if err := f.refresh("172.30.0.1"); err != nil {
					t.Error(err)
				}
			})
			if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), "nameserver") {
				t.Errorf("%q, %v", data, err)
			}
		})
	}
	f := machineFolder(t)
	outside := t.TempDir()
	if err := os.Remove(filepath.Join(f.disk(), "etc")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(f.disk(), "etc")); err != nil {
		t.Fatal(err)
	}
	if err := f.refresh("172.30.0.1"); err == nil {
		t.Error("a machine whose /etc leads to the host's folders is started")
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("the host's folder holds %v, %v", left, err)
	}
}

// The first process's log is opened by the host.
func TestLogOfTheFirstProcessStaysInTheMachine(t *testing.T) {
	for name := range hostile(t, "", "") {
		t.Run(name, func(t *testing.T) {
			f := machineFolder(t)
			path := filepath.Join(f.logs(), "init.log")
			hostile(t, path, hostFile(t, precious))[name]()
			soon(t, func() {
				log, err := f.openLog("init.log")
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := log.WriteString("begun\n"); err != nil {
					t.Error(err)
				}
				_ = log.Close()
			})
			if data, err := os.ReadFile(path); err != nil || string(data) != "begun\n" {
				t.Errorf("%q, %v", data, err)
			}
		})
	}
	f := machineFolder(t)
	for range 2 {
		log, err := f.openLog("init.log")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.WriteString("line\n"); err != nil {
			t.Fatal(err)
		}
		_ = log.Close()
	}
	if data, err := os.ReadFile(filepath.Join(f.logs(), "init.log")); err != nil || string(data) != "line\nline\n" {
		t.Errorf("a log is not continued: %q, %v", data, err)
	}
}

// What a machine says of itself is read from a file that the machine writes: no other file is read for it, nobody waits for
// it, it may not be endless, and it holds no secrets, whatever program wrote it.
func TestStatusComesFromTheMachineAlone(t *testing.T) {
	for name := range hostile(t, "", "") {
		t.Run(name, func(t *testing.T) {
			f := machineFolder(t)
			hostile(t, f.in(guest.StatusFile), hostFile(t, `{"ready":true,"problem":"of the host"}`))[name]()
			soon(t, func() {
				if s := f.status(); s != (guest.Status{}) {
					t.Errorf("%+v", s)
				}
			})
		})
	}
	f := machineFolder(t)
	for text, want := range map[string]guest.Status{
		`{"ready":true,"problem":"\u001b[31mcurl --token abcdef.0123456789abcdef","bootstrap":{"phase":"Failed","command":"x --certificate-key ` +
			`deadbeefdeadbeef"}}`: {
			Ready: true, Problem: "curl --token <secret>", Bootstrap: guest.Bootstrap{Phase: "Failed", Command: "x --certificate-key <secret>"}},
		`{"ready":true,"problem":"` + strings.Repeat("x", statusLimit) + `"}`: {},
		`{"ready":tru`: {},
	} {
		if err := os.WriteFile(f.in(guest.StatusFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s := f.status(); s != want {
			t.Errorf("%.200s: %+v", text, s)
		}
	}
}

func TestLogsAreTheMachinesOwn(t *testing.T) {
	h := &Host{state: t.TempDir()}
	f := h.folder("machine")
	if err := os.MkdirAll(f.logs(), 0o700); err != nil {
		t.Fatal(err)
	}
	secret := hostFile(t, precious)
	for name, put := range hostile(t, filepath.Join(f.logs(), "kubelet.log"), secret) {
		put()
		soon(t, func() {
			if file, err := h.OpenFile("machine", "logs/kubelet.log"); err == nil {
				t.Errorf("%s is opened: %s", name, file.Name())
			}
		})
		if err := os.RemoveAll(filepath.Join(f.logs(), "kubelet.log")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(f.logs(), "kubelet.log"), []byte("own\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := h.OpenFile("machine", "logs/kubelet.log")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	data := make([]byte, 10)
	if n, err := file.Read(data); err != nil || string(data[:n]) != "own\n" {
		t.Errorf("%q, %v", data[:n], err)
	}
}

// Commands in a machine of a control plane find its cluster and its member of etcd without flags; elsewhere they are not led astray.
func TestEnvironmentOfCommands(t *testing.T) {
	f := machineFolder(t)
	has := func(variable string, argv ...string) bool {
		return slices.ContainsFunc(f.environment(argv), func(v string) bool { return strings.HasPrefix(v, variable+"=") })
	}
	put := func(path string, text ...string) {
		file := filepath.Join(f.disk(), path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Join(text, "")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if has("KUBECONFIG") || has("ETCDCTL_ENDPOINTS") || !has("CONTAINERD_NAMESPACE") {
		t.Errorf("on a worker: %v", f.environment(nil))
	}
	put(adminConfig)
	put(manifests+"etcd.yaml",
		`{kind: Pod, spec: {containers: [{command: [etcd, "--listen-client-urls=https://[::1]:2379", --trusted-ca-file=/ssl/etcd/ca.crt]}],
		volumes: [{name: etcd-certs, hostPath: {path: /ssl/etcd}}]}}`)
	put("/ssl/etcd/ca.crt")
	put("/ssl/etcd/healthcheck-client.crt")
	if !has("KUBECONFIG") || has("ETCDCTL_CERT") {
		t.Errorf("while the key is missing: %v", f.environment(nil))
	}
	put("/ssl/etcd/healthcheck-client.key")
	for _, variable := range []string{"ETCDCTL_ENDPOINTS", "ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY"} {
		if !has(variable, "etcdctl", "member", "list") {
			t.Errorf("no %s: %v", variable, f.environment(nil))
		}
	}
	if env := f.environment(nil); !slices.Contains(env, "ETCDCTL_ENDPOINTS=https://[::1]:2379") ||
		!slices.Contains(env, "ETCDCTL_KEY=/ssl/etcd/healthcheck-client.key") {
		t.Errorf("the member of a machine is not asked where its manifest says: %v", env)
	}
	if has("ETCDCTL_CERT", "sh", "-c", "etcdctl --cert x member list") || !has("ETCDCTL_CACERT", "sh", "-c", "etcdctl --cert x member list") {
		t.Error("a variable stands beside its flag, or is missing beside another")
	}
}
