package store

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestServer: a store keeps its contract in a real S3 server over plain HTTP, where each part of an upload is signed. QUORATE_S3_SERVER is
// versitygw's path; `make s3` builds it.
func TestServer(t *testing.T) {
	path := os.Getenv("QUORATE_S3_SERVER")
	if path == "" {
		t.Skip("QUORATE_S3_SERVER names no versitygw; `make s3` does")
	}
	for _, versions := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "versioned"}[versions], func(t *testing.T) {
			s := server(t, path, versions)
			contract(t, s, true)
			if versions {
				keepsVersions(t, s)
				return
			}
			if err := s.Put(t.Context(), "w/a", strings.NewReader("x")); err != nil {
				t.Fatal(err)
			}
			if text, _ := versionsOf(t, s, "w", ""); !slices.Equal(text, []string{"w/a"}) {
				t.Errorf("without versions: %q", text)
			}
		})
	}
}

// server starts a server with a bucket, and returns a store in it.
func server(t *testing.T, path string, versions bool) Store {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "backups"), 0o700); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"--port", address, "--access", "id", "--secret", "secret-key", "--quiet", "posix", "--sidecar", t.TempDir()}
	if versions {
		arguments = append(arguments, "--versioning-dir", t.TempDir())
	}
	command := exec.Command(path, append(arguments, data)...)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Log(output.String())
		}
	})
	store, err := S3{Endpoint: "http://" + address, Bucket: "backups", Prefix: "team/x", AccessKey: "id", SecretKey: "secret-key",
		PathStyle: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	for {
		if versions {
			err = store.(*bucket).client.EnableVersioning(t.Context(), "backups")
		} else {
			err = store.List(t.Context(), "u", func(string) error { return nil })
		}
		if err == nil {
			return store
		}
		select {
		case <-deadline.C:
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
