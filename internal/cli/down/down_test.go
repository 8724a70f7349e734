package down

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRemoveState(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state[1]") // not to be taken for a pattern
	for _, f := range []string{"environment.json", "daemon.log", "daemon.log.1", "daemon.pid", ".environment.json.1", ".daemon.status.1",
		"start.lock", "machines/m/machine.json", "management/pki/ca.key", "endpoints/demo.json", "kubeconfig/demo"} {
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

// TestBackupsOutlive: backups and the key to them stay where everything else of an environment goes. Folders without one go, and the key
// with the last one.
func TestBackupsOutlive(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	kept := filepath.Join(state, "backups", "default", "host", "uid", "name", "archive")
	for _, folder := range []string{filepath.Dir(kept), filepath.Join(state, "backups", "other", "empty"),
		filepath.Join(state, "scratch", "scratch-1")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, kept, "x")
	identity := filepath.Join(state, "backups", "identity.txt")
	write(t, identity, "x")
	for range 2 { // it may be repeated
		if err := errors.Join(checkState(state), removeState(state)); err != nil && !strings.Contains(err.Error(), "environment.json") {
			t.Error(err)
		}
		write(t, filepath.Join(state, "environment.json"), "{}")
	}
	if err := removeState(state); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(kept); err != nil || !strings.Contains(stateGone(state), filepath.Join(state, "backups")) {
		t.Errorf("the backup: %v; %s", err, stateGone(state))
	}
	if _, err := os.Stat(identity); err != nil {
		t.Errorf("the key to the backups is gone: %v", err)
	}
	for _, folder := range []string{"backups/other", "scratch", "environment.json"} {
		if _, err := os.Stat(filepath.Join(state, folder)); err == nil {
			t.Errorf("%s is left", folder)
		}
	}
	if err := errors.Join(os.Remove(kept), removeState(state)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(state); err == nil {
		t.Error("the state folder is left without a backup")
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

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
