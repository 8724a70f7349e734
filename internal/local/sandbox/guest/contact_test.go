package guest

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestContact: a kubelet that asks its own machine's API server is started again once, when that is ready, and no other.
func TestContact(t *testing.T) {
	const after = 2 // requests that are refused first
	for name, test := range map[string]struct {
		address string
		prepare func(t *testing.T, c *contact)
		asked   int32 // how often the API server was asked
		did     bool
		err     string
	}{
		"its own API server":     {address: "127.0.0.1", asked: after + 1, did: true},
		"another API server":     {address: "10.0.0.1"},
		"it has its certificate": {address: "127.0.0.1", prepare: func(t *testing.T, c *contact) { write(t, c.has, "") }},
		"it has none, and cannot end": {address: "127.0.0.1", asked: after + 1, did: true,
			prepare: func(_ *testing.T, c *contact) { c.restart = func() error { return errors.New("it stays") } }, err: "it stays"},
		"no kubeconfig": {address: "127.0.0.1", prepare: func(t *testing.T, c *contact) { write(t, c.asks, "clusters: []\n") },
			err: "it has 0 clusters, want 1"},
		"no authority": {address: "127.0.0.1", prepare: func(t *testing.T, c *contact) {
			write(t, c.asks, "clusters: [{cluster: {server: https://127.0.0.1:1}}]\n")
		}, err: "certificate-authority-data is no certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			var asked, restarted atomic.Int32
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n := asked.Add(1); r.URL.Path != "/readyz" || n <= after {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}))
			defer server.Close()
			dir := t.TempDir()
			c := contact{asks: filepath.Join(dir, "asks"), has: filepath.Join(dir, "has"), address: test.address}
			c.restart = func() error { restarted.Add(1); return nil }
			authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			write(t, c.asks, fmt.Sprintf("clusters:\n- cluster:\n    certificate-authority-data: %s\n    server: %s\n",
				base64.StdEncoding.EncodeToString(authority), server.URL))
			if test.prepare != nil {
				test.prepare(t, &c)
			}
			did, err := c.await(t.Context())
			if did != test.did || err == nil != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("restarted: %t, %v; want %t, %s", did, err, test.did, test.err)
			}
			if asked.Load() != test.asked {
				t.Errorf("the API server was asked %d times, want %d", asked.Load(), test.asked)
			}
			if test.err == "" && restarted.Load() == 1 != test.did {
				t.Errorf("the kubelet was restarted %d times", restarted.Load())
			}
		})
	}
}

// TestContactEnds: what never comes is waited for no longer than the bootstrap takes.
func TestContactEnds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*look+look/2)
	defer cancel()
	dir, began := t.TempDir(), time.Now()
	c := contact{asks: filepath.Join(dir, "asks"), has: filepath.Join(dir, "has"),
		restart: func() error { t.Error("it was restarted"); return nil }}
	if did, err := c.await(ctx); did || err != nil || time.Since(began) < 3*look {
		t.Errorf("restarted: %t, %v after %s", did, err, time.Since(began))
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
