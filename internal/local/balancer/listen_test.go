package balancer

import (
	"net"
	"strings"
	"testing"
)

// TestListen: an endpoint of either family listens before its address is on the host.
func TestListen(t *testing.T) {
	for _, address := range []string{"192.0.2.7:0", "[2001:db8::7]:0"} {
		if l, err := net.Listen("tcp6", "[::1]:0"); strings.HasPrefix(address, "[") && err != nil {
			t.Skip("the host has no IPv6: ", err)
		} else if err == nil {
			_ = l.Close()
		}
		listener, err := listen(t.Context(), address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		if got := listener.Addr().String(); !strings.HasPrefix(got, strings.TrimSuffix(address, "0")) {
			t.Errorf("it listens on %s, want %s", got, address)
		}
		_ = listener.Close()
	}
}

func TestValidateFamilies(t *testing.T) {
	for listen, want := range map[string]string{"10.0.0.1:6443": "", "[fd00::1]:6443": "",
		"[::ffff:10.0.0.1]:6443": "want an IP address and port", "fd00::1:6443": "want an IP address and port"} {
		err := Config{Listen: listen, Backends: []Backend{{Name: "a", Address: "[fd00::2]:6443"}}}.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", listen, err, want)
		}
	}
}
