package balancer

import (
	"net"
	"testing"
	"time"
)

// TestQuiet: a connection is quiet when the backend has answered and nothing was asked since.
func TestQuiet(t *testing.T) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	near, err := net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	far, err := listener.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = far.Close() }()
	l := &link{backend: near}
	say := func(from, to net.Conn) {
		t.Helper()
		if _, err := from.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	say(near, far)
	time.Sleep(3 * answerIdle)
	if l.quiet() {
		t.Error("a request that nobody has answered counts as over")
	}
	say(far, near)
	if l.quiet() {
		t.Error("an answer of this moment may have a next part")
	}
	time.Sleep(3 * answerIdle)
	if !l.quiet() {
		t.Error("a request that was answered counts as under way")
	}
	say(near, far)
	if l.quiet() {
		t.Error("the next request counts as over")
	}
	eventually(t, "one that nobody answers for long is given up", l.quiet)
	_ = near.Close()
	if !l.quiet() {
		t.Error("a connection that is closed counts as busy")
	}
}
