package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/local/sandbox"
	"github.com/quorate/quorate/internal/program/plaintext"
)

func fixed(path string) func() (string, error) {
	return func() (string, error) {
		_, err := os.Stat(path)
		return path, err
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var all strings.Builder
	for i := range 20000 { // more than a block
		fmt.Fprintf(&all, "line %d of twenty thousand\n", i)
	}
	write(t, path, all.String()+"no end")
	last := func(n int) string {
		parts := strings.SplitAfter(all.String(), "\n")
		return strings.Join(parts[len(parts)-1-n:], "")
	}
	for _, tt := range []struct {
		lines int
		want  string
	}{{0, ""}, {1, last(1)}, {2, last(2)}, {5000, last(5000)}, {-1, all.String()}, {30000, all.String()}} {
		var out bytes.Buffer
		if err := (logFile{current: fixed(path)}).copyTo(t.Context(), &out, tt.lines, false); err != nil {
			t.Fatal(err)
		}
		if out.String() != tt.want {
			t.Errorf("%d lines: %d bytes, want %d", tt.lines, out.Len(), len(tt.want))
		}
	}
}

func TestLogThatIsNotThere(t *testing.T) {
	err := (logFile{current: fixed(filepath.Join(t.TempDir(), "log"))}).copyTo(t.Context(), &bytes.Buffer{}, -1, false)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error is %v", err)
	}
}

// locked is a buffer that a follower writes while the test reads.
type locked struct {
	mutex sync.Mutex
	text  strings.Builder
}

func (l *locked) Write(p []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(p)
}

func (l *locked) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for {
		l.mutex.Lock()
		got := l.text.String()
		l.mutex.Unlock()
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("followed %q, want %q", got, want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	ctx, cancel := context.WithCancel(t.Context())
	var out locked
	ended := make(chan error, 1)
	go func() { ended <- (logFile{current: fixed(path)}).copyTo(ctx, &out, 1, true) }()
	write(t, path, "one\ntw")
	out.await(t, "one\n")
	write(t, path, "o\n")
	out.await(t, "one\ntwo\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write(t, path+".1", "three\n") // the writer has not noticed yet
	write(t, path, "four\n")
	out.await(t, "one\ntwo\nthree\nfour\n")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestContainerLine(t *testing.T) {
	for line, want := range map[string]string{
		"2026-11-21T03:00:00.1Z stderr F I1121 main.go:1] a b\n": "I1121 main.go:1] a b\n",
		"2026-11-21T03:00:00.1Z stdout P half a \n":              "half a ",
		"odd\n": "odd\n",
	} {
		if got := string(containerLine([]byte(line))); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// A log is what programs of a machine wrote: it holds no secrets when it is shown, and nothing that a terminal acts on.
func TestLogsAreSafeToShow(t *testing.T) {
	h, err := sandbox.Open(t.TempDir(), netip.MustParsePrefix("172.30.0.0/16"), "")
	if err != nil {
		t.Fatal(err)
	}
	logs := h.Logs("cp-1")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(filepath.Dir(logs), "machine.json"), `{"spec":{"name":"cp-1"}}`)
	write(t, filepath.Join(logs, "bootstrap.log"), "kubeadm join 10.201.0.10:6443 --token abcdef.0123456789abcdef \\\n"+
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n\x1b[31mdone\x1b[0m\n")
	secret := filepath.Join(t.TempDir(), "secret")
	write(t, secret, "of the host\n")
	if err := os.Symlink(secret, filepath.Join(logs, "containerd.log")); err != nil {
		t.Fatal(err)
	}
	files := machineFiles{h, "cp-1"}
	var out bytes.Buffer
	var lines plaintext.Lines
	log := logFile{plain: lines.Redact, open: files.open, current: func() (string, error) { return "logs/bootstrap.log", nil }}
	if err := log.copyTo(t.Context(), &out, -1, false); err != nil {
		t.Fatal(err)
	}
	if want := "kubeadm join 10.201.0.10:6443 --token <secret> \\\n<PEM block>\n^[[31mdone^[[0m\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	log.current = func() (string, error) { return "logs/containerd.log", nil }
	if err := log.copyTo(t.Context(), &out, -1, false); err == nil || strings.Contains(out.String(), "of the host") {
		t.Errorf("a link to the host's files is followed: %v, %q", err, out.String())
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
	for i, f := range []string{"kube-system_etcd-m_1/etcd/0.log", "kube-system_etcd-m_1/etcd/1.log",
		"kube-system_kube-proxy-x_2/kube-proxy/0.log"} {
		path := filepath.Join(pods, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, "x")
		when := time.Date(2026, 3, 1, 12, i, 0, 0, time.UTC)
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
