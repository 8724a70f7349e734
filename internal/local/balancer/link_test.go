package balancer

import (
	"net"
	"testing"
	"time"
)

// TestQuiet: a connection is quiet when the backend has answered and nothing was asked since, or nobody said anything for long.
func TestQuiet(t *testing.T) {
	const justNow = answerIdle - time.Millisecond
	for _, test := range []struct {
		what            string
		asked, answered time.Duration
		want            bool
	}{
		{"a request that nobody has answered", 3 * answerIdle, 5 * answerIdle, false},
		{"the first request, which nobody has answered", drainIdle - time.Millisecond, time.Hour, false},
		{"a request and an answer in the same millisecond", answerIdle, answerIdle, false},
		{"an answer of this moment, which may have a next part", 3 * answerIdle, justNow, false},
		{"an answer a moment ago", 3 * answerIdle, answerIdle, true},
		{"an answer long ago", time.Hour, drainIdle, true},
		{"the next request", 0, answerIdle, false},
		{"a request that nobody answers for long", drainIdle, time.Hour, true},
		{"an answer to a request that was asked long ago, of which parts still come", time.Hour, 0, false},
	} {
		if got := quiet(test.asked, test.answered); got != test.want {
			t.Errorf("%s: asked %s ago, answered %s ago, quiet %t", test.what, test.asked, test.answered, got)
		}
	}
}

// TestLinkQuiet: the kernel's times of a real connection tell the same.
func TestLinkQuiet(t *testing.T) {
	client, ours := pair(t)
	near, far := pair(t)
	l := &link{client: ours, backend: near}
	say := func(from, to net.Conn) {
		t.Helper()
		if _, err := from.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := to.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	// becomes waits until the kernel's two times are as they should be after what was said.
	becomes := func(what string, is func(asked, answered time.Duration) bool) {
		t.Helper()
		eventually(t, what, func() bool {
			asked, answered, open := l.idle()
			return open && is(asked, answered)
		})
	}
	becomes("both times pass", func(asked, answered time.Duration) bool { return min(asked, answered) > answerIdle })
	say(near, far)
	becomes("the request is younger than the last answer", func(asked, answered time.Duration) bool { return asked < answered })
	becomes("the request grows old", func(asked, answered time.Duration) bool { return asked > answerIdle && asked < answered })
	say(far, near)
	becomes("the answer is younger than the request", func(asked, answered time.Duration) bool { return answered < asked })
	eventually(t, "a request that was answered is over", l.quiet)
	say(near, far)
	becomes("the next request is younger than the answer", func(asked, answered time.Duration) bool { return asked < answered })
	eventually(t, "one that nobody answers for long is given up", l.quiet)
	say(far, near)
	eventually(t, "the answer is over", l.quiet)
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	becomes("a request that has come and is not passed on yet is younger than the answer",
		func(asked, answered time.Duration) bool { return asked < answered })
	_ = near.Close()
	if _, _, open := l.idle(); open || !l.quiet() {
		t.Errorf("a connection that is closed: open %t, quiet %t", open, l.quiet())
	}
}

// pair is both ends of a connection.
func pair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	near, err = net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	far, err = listener.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}
