package balancer

import (
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// link is one client's connection and the one to a backend that carries it on.
type link struct {
	client, backend *net.TCPConn
}

// run copies both ways until both have ended. The kernel moves the bytes (splice), so an idle connection
// costs two goroutines and no buffers.
func (l *link) run() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.carry(l.client, l.backend)
	}()
	l.carry(l.backend, l.client)
	<-done
	l.close()
}

// carry copies one way. An end of the stream is passed on, and the other way stays open: a client may have said
// all it has to say and still wait for the answer.
func (l *link) carry(to, from *net.TCPConn) {
	if _, err := io.Copy(to, from); err != nil {
		l.close()
		return
	}
	if to.CloseWrite() != nil {
		l.close()
	}
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.backend.Close()
}

// quiet reports whether nothing seems to be under way. A connection that the kernel knows nothing of is being closed, and quiet enough.
func (l *link) quiet() bool {
	asked, answered, open := l.idle()
	return !open || quiet(asked, answered)
}

// idle is how long ago something was last asked and answered, as the kernel keeps it, and whether it knows the connection. What the client
// has sent counts as asked from its arrival on, also before it is passed on to the backend, which takes its time on a busy host.
func (l *link) idle() (asked, answered time.Duration, open bool) {
	client, ok := kernelInfo(l.client)
	if !ok {
		return 0, 0, false
	}
	backend, ok := kernelInfo(l.backend)
	if !ok {
		return 0, 0, false
	}
	asked = time.Duration(min(client.Last_data_recv, backend.Last_data_sent)) * time.Millisecond
	return asked, time.Duration(backend.Last_data_recv) * time.Millisecond, true
}

// heard is how long ago the backend last sent something on the connection; false: it never has, or the connection is closed.
func (l *link) heard() (ago time.Duration, ever bool) {
	info, open := kernelInfo(l.backend)
	if !open || info.Bytes_received == 0 {
		return 0, false
	}
	return time.Duration(info.Last_data_recv) * time.Millisecond, true
}

// kernelInfo is what the kernel knows of a connection; false: nothing, because it is closed.
func kernelInfo(c *net.TCPConn) (info *unix.TCPInfo, open bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, false
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		info, failed = unix.GetsockoptTCPInfo(int(fd), unix.SOL_TCP, unix.TCP_INFO)
	})
	return info, err == nil && failed == nil
}

// quiet reports whether the backend spoke last, and that a moment ago, or neither side has for long.
func quiet(asked, answered time.Duration) bool {
	return answered >= answerIdle && answered < asked || min(asked, answered) >= drainIdle
}
