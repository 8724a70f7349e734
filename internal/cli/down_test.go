package cli

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/sandbox"
)

func TestRemoveState(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state[1]") // not to be taken for a pattern
	for _, f := range []string{"environment.json", "daemon.log", "daemon.log.1", "daemon.pid", "start.lock", "machines/m/machine.json", "management/pki/ca.key", "endpoints/demo.json", "kubeconfig/demo"} {
		path := filepath.Join(state, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, "x")
	}
	theirs := filepath.Join(state, "thesis.txt")
	write(t, theirs, "years of work")
	if err := removeState(state); err == nil || !strings.Contains(err.Error(), "thesis.txt, which quorate did not make") {
		t.Errorf("error is %v", err)
	}
	entries, err := os.ReadDir(state)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v are left, want thesis.txt alone; %v", entries, err)
	}
	if err := os.Remove(theirs); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it may be repeated
		if err := removeState(state); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("the state folder is left")
	}
}

func TestCheckState(t *testing.T) {
	state := t.TempDir()
	for _, missing := range []string{filepath.Join(state, "gone"), state} {
		if err := checkState(missing); err != nil {
			t.Errorf("a folder that is not there, or empty: %v", err)
		}
	}
	write(t, filepath.Join(state, "machines"), "a list of engines")
	if err := checkState(state); err == nil || !strings.Contains(err.Error(), "has no environment.json and no start.lock") {
		t.Errorf("somebody else's folder: %v", err)
	}
	write(t, filepath.Join(state, "start.lock"), "")
	if err := checkState(state); err != nil {
		t.Errorf("an environment that is half gone: %v", err)
	}
}

func TestWriteSecret(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeSecret(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v; want 0600", info.Mode(), err)
	}
	if raw, _ := os.ReadFile(path); string(raw) != "new" {
		t.Errorf("content is %q", raw)
	}
	if err := writeSecret(filepath.Join(path, "x"), nil); err == nil {
		t.Error("a folder that is none was written to")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestNewestLog(t *testing.T) {
	h, err := sandbox.Open(t.TempDir(), netip.MustParsePrefix("172.30.0.0/16"), "")
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(h.Logs("m"))
	pods, m := filepath.Join(folder, podLogs), machineFiles{h, "m"}
	if err := os.MkdirAll(pods, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := newestLog(m, "etcd"); err == nil || !strings.Contains(err.Error(), "init, bootstrap, containerd, kubelet") {
		t.Errorf("error is %v", err)
	}
	for i, f := range []string{"kube-system_etcd-m_1/etcd/0.log", "kube-system_etcd-m_1/etcd/1.log", "kube-system_kube-proxy-x_2/kube-proxy/0.log"} {
		path := filepath.Join(pods, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, "x")
		when := start.Add(timeStep(i))
		if err := os.Chtimes(path, when, when); err != nil {
			t.Fatal(err)
		}
	}
	got, err := newestLog(m, "etcd")
	if err != nil || !strings.HasSuffix(got, "etcd/1.log") {
		t.Errorf("newest is %q, %v", got, err)
	}
	if _, err := newestLog(m, "*"); err == nil || !strings.Contains(err.Error(), "etcd, kube-proxy") {
		t.Errorf("error is %v", err)
	}
}
