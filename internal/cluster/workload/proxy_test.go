package workload

import (
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// balancer is a TCP load balancer with one backend, that can be made to misbehave.
type balancer struct {
	t       *testing.T
	address string

	mu       sync.Mutex
	listener net.Listener
	backend  string
	hungUp   bool // accept and close, as a balancer without backends does
	silent   bool
	resumed  chan struct{} // closed when not silent
	conns    []net.Conn
}

// balance returns a balancer for the server, which refuses connections at first.
func balance(t *testing.T, server string) *balancer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	b := &balancer{t: t, address: l.Addr().String(), resumed: make(chan struct{})}
	close(b.resumed)
	must(t, l.Close())
	at, err := url.Parse(server)
	must(t, err)
	b.backend = at.Host
	t.Cleanup(func() { b.speak(); b.down() })
	return b
}

func (b *balancer) url() string { return "https://" + b.address }

// up makes it listen and forward.
func (b *balancer) up() {
	b.t.Helper()
	l, err := net.Listen("tcp", b.address)
	must(b.t, err)
	b.mu.Lock()
	b.listener = l
	b.mu.Unlock()
	go b.accept(l)
}

// down ends all connections and refuses new ones.
func (b *balancer) down() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listener != nil {
		b.listener.Close()
		b.listener = nil
	}
	b.cutAll()
}

// hangUp ends all connections, and new ones as soon as they are there; or stops doing so.
func (b *balancer) hangUp(on bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hungUp = on
	b.cutAll()
}

func (b *balancer) cutAll() {
	for _, c := range b.conns {
		c.Close()
	}
	b.conns = nil
}

// hush makes everything that is sent stay on the way.
func (b *balancer) hush() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.silent, b.resumed = true, make(chan struct{})
}

func (b *balancer) speak() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.silent {
		b.silent = false
		close(b.resumed)
	}
}

func (b *balancer) accept(l net.Listener) {
	for {
		front, err := l.Accept()
		if err != nil {
			return
		}
		b.mu.Lock()
		backend, hungUp := b.backend, b.hungUp
		b.mu.Unlock()
		back, err := net.DialTimeout("tcp", backend, time.Second)
		if err != nil || hungUp {
			front.Close()
			if err == nil {
				back.Close()
			}
			continue
		}
		b.mu.Lock()
		b.conns = append(b.conns, front, back)
		b.mu.Unlock()
		go b.copy(front, back)
		go b.copy(back, front)
	}
}

func (b *balancer) copy(to, from net.Conn) {
	defer to.Close()
	defer from.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		b.mu.Lock()
		wait := b.resumed
		b.mu.Unlock()
		<-wait
		if _, writeErr := to.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
	}
}
