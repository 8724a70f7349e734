package balancer

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// FuzzConfig reads the configuration of an endpoint: one that is accepted can be served.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"listen":"172.30.0.10:6443","backends":[{"name":"one","address":"172.30.1.1:6443"}]}`))
	f.Add([]byte(`{"listen":":0","backends":[{"name":"","address":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "endpoint.json")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path)
		if err != nil {
			return
		}
		if _, err := netip.ParseAddrPort(c.Listen); err != nil {
			t.Errorf("%q is accepted: %v", c.Listen, err)
		}
	})
}
