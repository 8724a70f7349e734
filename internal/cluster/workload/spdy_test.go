package workload

import (
	"bytes"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"k8s.io/streaming/pkg/httpstream"
	streamspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

// opened is a forwarded connection over a tunnel, of which the other end is served.
func opened(tb testing.TB, pings time.Duration, serve func(net.Conn)) (*forwarded, error) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			serve(conn)
		}
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	c := &forwarded{port: 2379, spdy: newSPDY(conn, pings), ended: make(chan struct{})}
	tb.Cleanup(func() { _ = c.Close() })
	return c, c.open()
}

// upstreams serves a tunnel with the library that kubelets use. It echoes what comes on the stream for data.
func upstreams(pings time.Duration, accept func(httpstream.Stream) error) func(net.Conn) {
	return func(conn net.Conn) {
		_, err := streamspdy.NewServerConnectionWithPings(conn, func(s httpstream.Stream, _ <-chan struct{}) error {
			if err := accept(s); err != nil {
				return err
			}
			if s.Headers().Get("streamType") == "data" {
				go func() { _, _ = io.Copy(s, s) }()
			}
			return nil
		}, pings)
		if err != nil {
			_ = conn.Close()
		}
	}
}

// TestTunnelBesidesKubelets: the library at the other end understands our frames, and we its own, while both send pings.
func TestTunnelBesidesKubelets(t *testing.T) {
	headers := make(chan string, 2)
	c, err := opened(t, time.Millisecond, upstreams(time.Millisecond, func(s httpstream.Stream) error {
		headers <- s.Headers().Get("streamType") + " " + s.Headers().Get("port") + " " + s.Headers().Get("requestID")
		return nil
	}))
	must(t, err)
	if first, second := <-headers, <-headers; first != "error 2379 0" || second != "data 2379 0" {
		t.Errorf("streams %q and %q", first, second)
	}
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() { _, _ = c.Write(sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("not what was sent came back: %v", err)
	}
	s := c.spdy
	settles(t, "three pings were sent", func() bool {
		s.writing.Lock()
		defer s.writing.Unlock()
		return s.pinged > 6
	})
	must(t, c.Close())
	if err := s.ping(); err == nil {
		t.Error("a ping was sent after the end")
	}
}

// TestTunnelRefusesStreams: a stream that is not wanted is an error, with its name.
func TestTunnelRefusesStreams(t *testing.T) {
	for _, refused := range []string{"error", "data"} {
		_, err := opened(t, time.Hour, upstreams(0, func(s httpstream.Stream) error {
			if s.Headers().Get("streamType") == refused {
				return errors.New("not wanted")
			}
			return nil
		}))
		if err == nil || !strings.Contains(err.Error(), "stream for "+refused) {
			t.Errorf("the stream for %s was refused: %v", refused, err)
		}
	}
}

// replies is a peer that opens every stream, sends a ping of its own, and then what it is given.
func replies(then []byte, pinged chan<- []byte) func(net.Conn) {
	return func(conn net.Conn) {
		in := newSPDY(conn, time.Hour)
		for range 2 {
			for {
				got, err := in.next()
				if err != nil {
					return
				}
				body := make([]byte, got.length)
				if _, err := io.ReadFull(in.in, body); err != nil {
					return
				}
				if got.control && got.of == typeSynStream {
					in.writing.Lock()
					_ = in.control(typeSynReply, body[:4]) // the client tells
					in.writing.Unlock()
					break
				}
			}
		}
		_, _ = conn.Write([]byte{0x80, 3, 0, typePing, 0, 0, 0, 4, 0, 0, 0, 42})
		_, _ = conn.Write(then)
		answer := make([]byte, 12)
		if _, err := io.ReadFull(conn, answer); err == nil && pinged != nil {
			pinged <- answer
		}
	}
}

// TestTunnelFrames: what peers may send and upstream's library does not.
func TestTunnelFrames(t *testing.T) {
	for _, test := range []struct {
		name string
		then []byte
		text string
		way  bool
	}{
		{"settings and a near end are passed over", []byte{0x80, 3, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0, 0x80, 3, 0, 7, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0,
			0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 3, 1, 0, 0, 1, 'x'}, "EOF", false},
		{"a frame of SPDY/2", []byte{0x80, 2, 0, 4, 0, 0, 0, 0}, "SPDY/2", true},
		{"a control frame without end", []byte{0x80, 3, 0, 4, 0, 0xff, 0, 0}, "at most 65536", true},
		{"a stream that nobody opened", []byte{0, 0, 0, 9, 0, 0, 0, 1, 'x'}, "not opened: 9", true},
		{"an answer without a stream", []byte{0x80, 3, 0, 2, 0, 0, 0, 0}, "at least 4", true},
		{"a reason of 8 KiB", append([]byte{0, 0, 0, 1, 1, 0, 0x20, 0}, bytes.Repeat([]byte{'w'}, 1<<13)...), strings.Repeat("w", 500) + "...",
			true},
		{"the stream for data is reset, and that for errors too", []byte{0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 3, 0, 0, 0, 5, 0x80, 3, 0, 3, 0, 0,
			0, 8, 0, 0, 0, 1, 0, 0, 0, 5}, "EOF", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			pinged := make(chan []byte, 1)
			c, err := opened(t, time.Hour, replies(test.then, pinged))
			must(t, err)
			_, err = io.Copy(io.Discard, c)
			if err == nil {
				err = io.EOF
			}
			if !strings.Contains(err.Error(), test.text) || wayFailed(err) != test.way || len(err.Error()) > 2*maxReason {
				t.Errorf("the way failed %t, want %t: %v", wayFailed(err), test.way, err)
			}
			if _, again := c.Read(make([]byte, 1)); again == nil {
				t.Error("something was read after the end")
			}
		})
	}
}

// TestTunnelAnswersPings: a peer that asks whether we are there learns it.
func TestTunnelAnswersPings(t *testing.T) {
	pinged := make(chan []byte, 1)
	c, err := opened(t, time.Hour, replies(nil, pinged))
	must(t, err)
	go func() { _, _ = c.Read(make([]byte, 1)) }()
	select {
	case answer := <-pinged:
		if want := []byte{0x80, 3, 0, typePing, 0, 0, 0, 4, 0, 0, 0, 42}; !bytes.Equal(answer, want) {
			t.Errorf("answered % x, want % x", answer, want)
		}
	case <-time.After(unhurried):
		t.Error("no answer to a ping")
	}
}

// BenchmarkTunnel keeps a hundred port-forwards open, as to the members of some thirty groups.
func BenchmarkTunnel(b *testing.B) {
	const many = 100
	for b.Loop() {
		before := liveHeap()
		tunnels := make([]*forwarded, many)
		for i := range tunnels {
			c, err := opened(b, time.Hour, replies(nil, nil))
			if err != nil {
				b.Fatal(err)
			}
			tunnels[i] = c
		}
		b.ReportMetric(float64(liveHeap()-before)/many/1e3, "kB/tunnel-of-both-ends")
		runtime.KeepAlive(tunnels)
		for _, c := range tunnels {
			_ = c.Close()
		}
	}
}
