package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/program/atomicfile"
)

const containerdSocket = "/run/containerd/containerd.sock"

// importedFile says that the image archives were imported; it lies on the disk, beside what was imported.
const importedFile = "/var/lib/containerd/.imported"

// askTimeout is how long containerd may take to answer.
const askTimeout = 5 * time.Second

// containerdAnswers asks containerd's CRI service for its version. A socket that accepts is not enough: the
// service refuses calls until its plugins are there.
func containerdAnswers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", containerdSocket)
		},
	}
	defer transport.CloseIdleConnections()
	// An empty message in gRPC's frame: not compressed, length zero.
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://containerd/runtime.v1.RuntimeService/Version",
		bytes.NewReader(make([]byte, 5)))
	if err != nil {
		return fmt.Errorf("asking containerd: %w", err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	response, err := transport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("asking containerd: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("asking containerd: %w", err)
	}
	status, message := response.Trailer.Get("Grpc-Status"), response.Trailer.Get("Grpc-Message")
	if status == "" {
		// An error without a body comes in the header.
		status, message = response.Header.Get("Grpc-Status"), response.Header.Get("Grpc-Message")
	}
	if status != "0" {
		return fmt.Errorf("asking containerd: it answers with status %s %s", status, message)
	}
	return nil
}

// importImages imports the archives that the machine came with, once in its life.
func (m *machine) importImages() error {
	if _, err := os.Stat(importedFile); err == nil {
		return nil
	}
	archives, err := filepath.Glob(filepath.Join(ImageDir, "*.tar"))
	if err != nil {
		return fmt.Errorf("looking for images: %w", err)
	}
	slices.Sort(archives)
	for _, archive := range archives {
		if out, err := m.output("ctr", "--namespace", "k8s.io", "images", "import", "--local", archive); err != nil {
			return fmt.Errorf("importing %s: %w: %s", filepath.Base(archive), err, strings.TrimSpace(out))
		}
	}
	return atomicfile.Write(importedFile, nil, 0o644)
}

// output runs a program to its end and returns what it printed.
func (m *machine) output(argv ...string) (string, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return "", fmt.Errorf("running %s: %w", argv[0], err)
	}
	p, err := m.children.start(command{argv: argv, env: environment(), dir: "/", out: w})
	if err != nil {
		return "", errors.Join(err, r.Close(), w.Close())
	}
	_ = w.Close()
	out, err := io.ReadAll(io.LimitReader(r, 64<<10))
	_ = r.Close()
	if status := <-p.exit; exitCode(status) != 0 {
		return string(out), fmt.Errorf("%s: %s", argv[0], describe(status))
	}
	if err != nil {
		return "", fmt.Errorf("reading what %s prints: %w", argv[0], err)
	}
	return string(out), nil
}
