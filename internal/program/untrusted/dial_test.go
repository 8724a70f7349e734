package untrusted

import (
	"errors"
	"net"
	"testing"
)

// TestDialer: no connection is made to an address at which only the manager's own host and network answer, whatever names it.
func TestDialer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost", "::ffff:127.0.0.1", "0.0.0.0"} {
		conn, err := Dialer().DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		if refused := (AddressError{}); !errors.As(err, &refused) {
			t.Errorf("%s: %v, want an AddressError", host, err)
		}
		if conn != nil {
			_ = conn.Close()
		}
	}
	for address, refused := range map[string]bool{
		"127.8.8.8:2379": true, "[::1]:2379": true, "169.254.169.254:80": true, "[fe80::1%eth0]:2379": true, "[::ffff:169.254.169.254]:80": true,
		"224.0.0.1:1": true, "[ff02::1]:1": true, "[::]:1": true, "nonsense": true,
		"10.0.0.1:2379": false, "192.168.1.1:2379": false, "203.0.113.7:2379": false, "[2001:db8::1]:2379": false, "[fd00::1]:2379": false,
	} {
		if err := refuseOwn("tcp", address, nil); (err != nil) != refused {
			t.Errorf("%s: %v, refused shall be %t", address, err, refused)
		}
	}
}
