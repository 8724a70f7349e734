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
	for _, address := range []string{"nonsense", "[fe80::1%eth0]", "10.0.0.1"} {
		if err := refuseOwn("tcp", address, nil); err == nil {
			t.Errorf("%s has no port, and is dialed", address)
		}
	}
}

// TestRefusedAddresses: which addresses are refused, in each form that leads to an IPv4 address.
func TestRefusedAddresses(t *testing.T) {
	for address, refused := range map[string]bool{
		// the manager's own host and link
		"127.8.8.8": true, "::1": true, "169.254.169.254": true, "fe80::1%eth0": true, "224.0.0.1": true, "ff02::1": true, "::": true,
		"0.0.0.0": true,
		"0.1.2.3": true, "240.0.0.1": true, "255.255.255.255": true,
		// metadata services outside of the link-local ranges
		"fd00:ec2::254": true, "fd00:ec2::254%eth0": true, "fd20:ce::254": true, "100.100.100.200": true, "168.63.129.16": true,
		"192.0.0.192": true,
		// IPv4-mapped, IPv4-compatible, IPv4-translated, 6to4 and NAT64
		"::ffff:169.254.169.254": true, "::ffff:127.0.0.1": true, "::127.0.0.1": true, "::ffff:0:127.0.0.1": true, "2002:7f00:1::": true,
		"2002:a9fe:a9fe::1":  true,
		"64:ff9b::a9fe:a9fe": true, "64:ff9b:1::a9fe:a9fe": true, "64:ff9b::127.0.0.1": true, "64:ff9b::100.100.100.200": true,
		"::ffff:0.1.2.3": true, "::ffff:168.63.129.16": true,

		"10.0.0.1": false, "192.168.1.1": false, "172.30.9.1": false, "100.64.0.1": false, "203.0.113.7": false, "2001:db8::1": false,
		"fd00::1":    false,
		"fd20:ce::1": false, "::ffff:10.0.0.1": false, "64:ff9b::203.0.113.7": false, "64:ff9b:1::203.0.113.7": false, "2002:cb00:7107::1": false,
		"100.100.100.201": false, "192.0.0.193": false, "239.255.255.255": true, "1.0.0.1": false, "223.255.255.255": false,
	} {
		if err := refuseOwn("tcp", net.JoinHostPort(address, "2379"), nil); (err != nil) != refused {
			t.Errorf("%s: %v, refused shall be %t", address, err, refused)
		}
	}
}

// TestDialerExcept: ranges that are given are refused too, in each form that leads to them, and nothing else is.
func TestDialerExcept(t *testing.T) {
	d := DialerExcept(prefixes("10.96.0.0/12", "fd00:10::/64"))
	for address, refused := range map[string]bool{
		"10.96.0.1": true, "10.111.255.255": true, "::ffff:10.96.0.1": true, "64:ff9b::10.96.0.1": true, "2002:0a60:0001::1": true,
		"fd00:10::1": true, "fd00:10::1%eth0": true,
		"127.0.0.1": true, "169.254.169.254": true, "10.95.255.255": false, "10.112.0.0": false, "fd00:11::1": false, "203.0.113.7": false,
	} {
		if err := d.Control("tcp", net.JoinHostPort(address, "443"), nil); (err != nil) != refused {
			t.Errorf("%s: %v, refused shall be %t", address, err, refused)
		}
	}
}
