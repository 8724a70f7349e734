package balancer

import (
	"fmt"
	"io"
	"net"
	"testing"
)

// source is a backend that sends as many bytes as it is asked for by one line.
func source(tb testing.TB) Backend {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				block := make([]byte, 64<<10)
				var n int
				for {
					if _, err := fmt.Fscanln(c, &n); err != nil {
						return
					}
					for ; n > 0; n -= len(block) {
						if _, err := c.Write(block[:min(n, len(block))]); err != nil {
							return
						}
					}
				}
			}()
		}
	}()
	return Backend{Name: "source", Address: listener.Addr().String()}
}

// BenchmarkBytes is how fast one connection gets an answer of 1 MiB.
func BenchmarkBytes(b *testing.B) {
	e := runEndpoint(b, source(b))
	c, err := net.Dial("tcp", e.listen)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	const size = 1 << 20
	b.SetBytes(size)
	buffer := make([]byte, size)
	for b.Loop() {
		fmt.Fprintln(c, size)
		if _, err := io.ReadFull(c, buffer); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCalls is the time of one call of a byte on an open connection.
func BenchmarkCalls(b *testing.B) {
	e := runEndpoint(b, source(b))
	c, err := net.Dial("tcp", e.listen)
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	buffer := make([]byte, 1)
	for b.Loop() {
		fmt.Fprintln(c, 1)
		if _, err := io.ReadFull(c, buffer); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkConnections is the time of a new connection with one call.
func BenchmarkConnections(b *testing.B) {
	e := runEndpoint(b, source(b))
	buffer := make([]byte, 1)
	for b.Loop() {
		c, err := net.Dial("tcp", e.listen)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintln(c, 1)
		if _, err := io.ReadFull(c, buffer); err != nil {
			b.Fatal(err)
		}
		_ = c.Close()
	}
}
