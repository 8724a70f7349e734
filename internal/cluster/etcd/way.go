package etcd

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// unreachedError is why a member was never asked: the way to it failed, which says nothing about the member.
type unreachedError struct{ error }

// Unwrap returns what the way failed with.
func (e unreachedError) Unwrap() error { return e.error }

// errRelay is what silence on an old relayed connection means.
var errRelay = errors.New("no answer over a connection through others, who may have stopped")

// unreached reports whether the member was never asked.
func unreached(err error) bool { return errors.As(err, new(unreachedError)) }

// wayFailed reports whether a dialer or its connection says that the way failed, and not the member.
func wayFailed(err error) bool {
	var way interface{ WayFailed() bool }
	return errors.As(err, &way) && way.WayFailed()
}

// dialling is one connection to a member, from the beginning of the dial on. gRPC keeps only the text of what it
// fails with.
type dialling struct {
	// ended is closed when the dial has ended.
	ended chan struct{}

	mu     sync.Mutex
	failed error     // why the way failed; nil: it did not
	opened time.Time // when the dial succeeded
	relays bool      // the connection goes through others
}

// open dials the member, and remembers what becomes of it.
func (m *member) open(ctx context.Context) (net.Conn, error) {
	d := &dialling{ended: make(chan struct{})}
	m.dialled.Store(d)
	defer close(d.ended)
	conn, err := (*m.dial.Load())(ctx)
	if err != nil {
		return nil, d.note(err)
	}
	relay, is := conn.(interface{ Relayed() bool })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.opened, d.relays = time.Now(), is && relay.Relayed()
	return dialledConn{conn, d}, nil
}

// note remembers an error of the way, and returns every error as it is.
func (d *dialling) note(err error) error {
	if wayFailed(err) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.failed == nil {
			d.failed = err
		}
	}
	return err
}

// blame tells errors of the way from those of the member, for a question that began at the given time and whose
// connection is given up.
func (m *member) blame(err error, begun time.Time) error {
	d := m.dialled.Load()
	if d == nil {
		return err
	}
	// Who gives up ends the dial, which may have something to say yet.
	limit := time.NewTimer(retryInterval)
	defer limit.Stop()
	select {
	case <-d.ended:
	case <-limit.C:
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.failed != nil:
		return unreachedError{d.failed}
	case d.relays && (d.opened.Before(begun) || time.Since(d.opened) < briefly):
		return unreachedError{errRelay}
	default:
		return err
	}
}

// dialledConn notes errors of the way.
type dialledConn struct {
	net.Conn
	d *dialling
}

// Read implements net.Conn.
func (c dialledConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.d.note(err)
}

// Write implements net.Conn.
func (c dialledConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.d.note(err)
}
