package embed

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzEnvironment reads environment.json, whatever became of it.
func FuzzEnvironment(f *testing.F) {
	f.Add([]byte(`{"network":"172.30.0.0/16","kubernetes":"v1.36.3","ports":{},"artifacts":{"kubernetes":"v1.36.3","images":["/x"]},` +
		`"cache":"/c"}`))
	f.Add([]byte(`{"network":""}`))
	f.Add([]byte(`{"network":"fe80::/10","artifacts":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		state := t.TempDir()
		if err := os.WriteFile(filepath.Join(state, environmentFile), data, 0o600); err != nil {
			t.Fatal(err)
		}
		e, err := Load(state)
		if err != nil {
			return
		}
		_ = e.complete()
		_, _ = e.merge(Options{State: state})
		_ = Made(state)
	})
}

// FuzzDaemonFiles reads what a daemon says of itself, and who it is.
func FuzzDaemonFiles(f *testing.F) {
	f.Add([]byte(`{"phase":"ready","ready":true}`))
	f.Add([]byte("1 1\n"))
	f.Add([]byte("-1 99999999999999999999"))
	f.Fuzz(func(t *testing.T, data []byte) {
		state := t.TempDir()
		for _, name := range []string{daemonStatus, daemonPID} {
			if err := os.WriteFile(filepath.Join(state, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_ = loadStatus(state)
		if pid, ok := Running(state); ok && pid <= 0 {
			t.Errorf("process %d runs", pid)
		}
	})
}
