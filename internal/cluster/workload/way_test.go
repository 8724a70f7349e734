package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wayFailed reports whether an error proves nothing about who listens on the port, as whoever dials asks it.
func wayFailed(err error) bool {
	var way interface{ WayFailed() bool }
	return errors.As(err, &way) && way.WayFailed()
}

// TestDialTellsTheWayFromThePort: what the API server or the kubelet does not open proves nothing about the
// port; that the port refused does.
func TestDialTellsTheWayFromThePort(t *testing.T) {
	dead, hung := &forwarder{}, &forwarder{hang: make(chan struct{})}
	config, hanging := serveForwards(t, dead), serveForwards(t, hung)
	defer close(hung.hang)
	dead.kubelet.Close()
	free := unusedPort(t)
	silent := silentPort(t)
	for _, test := range []struct {
		name string
		dial func(context.Context) (net.Conn, error)
		time time.Duration
		way  bool
		text string
	}{
		{"no kubelet", Dial(config, "n", "", free), unhurried, true, "error dialing backend"},
		{"no pod", Dial(config, "other", "", free), unhurried, true, "404"},
		{"a silent kubelet", Dial(hanging, "n", "", free), headStart / 10, true, ""},
		{"nobody to ask", Dial(nil, "n", "", free), unhurried, true, "there is no way"},
		{"no kubelet, and the address refuses", Dial(config, "n", "127.0.0.1", free), unhurried, false, "connection refused"},
		{"a silent kubelet, and the address refuses", Dial(hanging, "n", "127.0.0.1", free), 3 * headStart, false, "connection refused"},
		{"no kubelet, and the address is silent", Dial(config, "n", "127.0.0.1", silent), headStart, false, "error dialing backend"},
		{"no time for the address", Dial(hanging, "n", "127.0.0.1", free), headStart / 10, true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), test.time)
			defer cancel()
			_, err := test.dial(ctx)
			if err == nil || wayFailed(err) != test.way || !strings.Contains(err.Error(), test.text) {
				t.Errorf("the way failed %t, want %t: %v", wayFailed(err), test.way, err)
			}
		})
	}
}

// TestKubeletsReason: which of the reasons that kubelets give prove that nobody listens.
func TestKubeletsReason(t *testing.T) {
	const etcd = "error forwarding port 2379 to pod 3f1c9d0a7b, uid : "
	for _, test := range []struct {
		text string
		way  bool
	}{
		// containerd
		{etcd + `failed to execute portforward in network namespace "host": failed to connect to localhost:2379 inside namespace "3f1c9d0a7b", ` +
			`IPv4: dial tcp4 127.0.0.1:2379: connect: connection refused IPv6 dial tcp6 [::1]:2379: connect: connection refused `, false},
		{etcd + `failed to execute portforward in network namespace "host": failed to connect to localhost:2379 inside namespace "3f1c9d0a7b", ` +
			`IPv4: dial tcp4 127.0.0.1:2379: connect: connection refused IPv6 dial tcp6: address localhost: no suitable address found `, false},
		{etcd + `failed to execute portforward in network namespace "host": failed to find sandbox "3f1c9d0a7b" in store: not found`, true},
		{etcd + `failed to execute portforward in network namespace "/var/run/netns/x": network namespace for sandbox "3f1c9d0a7b" is closed`,
			true},
		{etcd + `failed to execute portforward in network namespace "host": read tcp4 127.0.0.1:40000->127.0.0.1:2379: read: connection reset ` +
			`by peer`, true},
		// cri-dockerd, by socat
		{etcd + `exit status 1: 2026/11/21 10:00:00 socat[4711] E connect(5, AF=2 127.0.0.1:2379, 16): Connection refused` + "\n", false},
		// a runtime that cannot be asked
		{etcd + `rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial unix ` +
			`/run/containerd/containerd.sock: connect: connection refused"`, true},
		{etcd + `dial tcp 127.0.0.1:23790: connect: connection refused`, true},
		{"error creating forwarding stream for port 2379", true},
		{"", true},
	} {
		if err := kubeletsReason(test.text, 2379); wayFailed(err) != test.way || err.Error() != strings.TrimSpace(test.text) {
			t.Errorf("the way failed %t, want %t: %v", wayFailed(err), test.way, err)
		}
	}
}

// TestForwardTellsWhatBroke: a port-forward that ends reports whether the port did it, or somebody between.
func TestForwardTellsWhatBroke(t *testing.T) {
	for _, spdyOnly := range []bool{false, true} {
		t.Run(fmt.Sprintf("spdyOnly=%t", spdyOnly), func(t *testing.T) {
			f := &forwarder{spdyOnly: spdyOnly}
			config := serveForwards(t, f)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			defer l.Close()
			accepted := make(chan net.Conn, 2)
			go func() {
				for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
					accepted <- conn
				}
			}()
			open := func(port int) (net.Conn, error) {
				conn, err := Dial(config, "n", "", port)(t.Context())
				if err != nil {
					return nil, err
				}
				if relay, is := conn.(interface{ Relayed() bool }); !is || !relay.Relayed() {
					t.Error("a port-forward does not say that it goes through others")
				}
				_, err = conn.Read(make([]byte, 1))
				return conn, err
			}

			conn, err := open(unusedPort(t))
			if conn == nil || err == nil || wayFailed(err) {
				t.Fatalf("the port refused: %v", err)
			}
			_ = conn.Close()

			go func() { _ = (<-accepted).Close() }()
			conn, err = open(l.Addr().(*net.TCPAddr).Port)
			if conn == nil || err == nil || wayFailed(err) {
				t.Fatalf("who listens hung up: %v", err)
			}
			_ = conn.Close()

			go func() {
				conn := <-accepted
				defer conn.Close()
				f.dropAll()
			}()
			// It may be gone before it has answered that it opens; API servers end a websocket 10 s after what is behind it.
			began := time.Now()
			conn, err = open(l.Addr().(*net.TCPAddr).Port)
			if !wayFailed(err) || time.Since(began) > 20*time.Second {
				t.Errorf("the kubelet is gone: told after %v: %v", time.Since(began), err)
			}
			if conn != nil {
				if _, err := io.WriteString(conn, "x"); !wayFailed(err) {
					t.Errorf("writing when the kubelet is gone: %v", err)
				}
				_ = conn.Close()
			}

			conn, err = Dial(config, "n", "", newEcho(t).port)(t.Context())
			must(t, err)
			must(t, conn.Close())
			if _, err := conn.Read(make([]byte, 1)); err == nil || wayFailed(err) {
				t.Errorf("closed by ourselves: %v", err)
			}
		})
	}
	direct := newEcho(t)
	conn, err := Dial(nil, "n", "127.0.0.1", direct.port)(t.Context())
	must(t, err)
	if relay, is := conn.(interface{ Relayed() bool }); is && relay.Relayed() {
		t.Error("the member's own address is called a relay")
	}
	_ = conn.Close()
}

// silentPort is one that answers nobody: there is room for one connection, and it is taken.
func silentPort(t *testing.T) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	must(t, err)
	t.Cleanup(func() { _ = syscall.Close(fd) })
	must(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	must(t, syscall.Listen(fd, 0))
	at, err := syscall.Getsockname(fd)
	must(t, err)
	port := at.(*syscall.SockaddrInet4).Port
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return port
}
