package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
	streamspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

// wayError is a failure of who stands between us and a port, the API server, the kubelet or the network: it proves nothing
// about who listens there.
type wayError struct{ error }

// Unwrap returns what failed.
func (e wayError) Unwrap() error { return e.error }

// WayFailed tells whoever dials that nothing is known of who listens on the port.
func (wayError) WayFailed() bool { return true }

// tunnelled is the protocol of port-forwards inside a websocket.
const tunnelled = "SPDY/3.1+" + portforward.PortForwardProtocolV1Name

// forward opens a connection to a port of a pod in kube-system, through the API server. That it opens does not
// mean that anybody listens there.
func forward(ctx context.Context, config *rest.Config, pod string, port int) (net.Conn, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("forwarding a port: %w", err)
	}
	at := base.JoinPath("api/v1/namespaces/kube-system/pods", pod, "portforward")
	tunnel, err := openWebsocket(ctx, config, at)
	if httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err) {
		// Older API servers and some proxies know only SPDY.
		tunnel, err = openSPDY(ctx, config, at)
	}
	if err != nil {
		return nil, fmt.Errorf("forwarding a port through the API server: %w", err)
	}
	// Streams know no context.
	giveUp := context.AfterFunc(ctx, func() { _ = tunnel.Close() })
	conn, err := openStreams(tunnel, port)
	if !giveUp() {
		err = ctx.Err()
	}
	if err != nil {
		_ = tunnel.Close() // what went wrong before is what counts
		return nil, fmt.Errorf("forwarding a port through the API server: %w", err)
	}
	return conn, nil
}

func openWebsocket(ctx context.Context, config *rest.Config, at *url.URL) (httpstream.Connection, error) {
	transport, holder, err := websocket.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	conn, err := websocket.Negotiate(transport, holder, request, tunnelled)
	if err != nil {
		return nil, err
	}
	return streamspdy.NewClientConnectionWithPings(portforward.NewTunnelingConnection("etcd", conn), portforward.PingPeriod)
}

func openSPDY(ctx context.Context, config *rest.Config, at *url.URL) (httpstream.Connection, error) {
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), nil)
	if err != nil {
		return nil, err
	}
	conn, _, err := spdy.NegotiateStreaming(upgrader, &http.Client{Transport: transport}, request, portforward.PortForwardProtocolV1Name)
	return conn, err
}

// openStreams opens the two streams that one forwarded connection consists of.
func openStreams(tunnel httpstream.Connection, port int) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	failures, err := openStream(tunnel, headers)
	if err != nil {
		return nil, fmt.Errorf("opening the stream for errors: %w", err)
	}
	// Nothing is ever written to it.
	if err := failures.Close(); err != nil {
		return nil, fmt.Errorf("closing our end of the stream for errors: %w", err)
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := openStream(tunnel, headers)
	if err != nil {
		return nil, fmt.Errorf("opening the stream for data: %w", err)
	}
	c := &forwarded{port: port, data: data, tunnel: tunnel, ended: make(chan struct{})}
	go c.listen(failures)
	return c, nil
}

// openStream opens a stream and waits for the answer no longer than the tunnel lasts; by itself the library waits 30 s.
func openStream(tunnel httpstream.Connection, headers http.Header) (httpstream.Stream, error) {
	var stream httpstream.Stream
	var err error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		stream, err = tunnel.CreateStream(headers.Clone())
	}()
	select {
	case <-answered:
		return stream, err
	case <-tunnel.CloseChan():
		return nil, errors.New("the tunnel broke off before an answer")
	}
}

// forwarded is one connection through the API server.
type forwarded struct {
	port   int
	data   io.ReadWriteCloser
	tunnel httpstream.Connection

	close sync.Once
	// closed: the end is our own doing.
	closed atomic.Bool
	// ended is closed when the other end has said why it failed, or that it did not.
	ended chan struct{}
	// why is what it said; it is written before ended is closed.
	why error
}

// listen waits for what the other end says on the stream for errors, which it closes at the end.
func (c *forwarded) listen(failures io.Reader) {
	defer close(c.ended)
	text, err := io.ReadAll(io.LimitReader(failures, 4<<10))
	if err == nil && len(text) > 0 {
		c.why = kubeletsReason(string(text), c.port)
		_ = c.end() // the reason is told by Read
	}
}

// Read implements net.Conn.
func (c *forwarded) Read(p []byte) (int, error) {
	n, err := c.data.Read(p)
	if n > 0 || err == nil {
		return n, err
	}
	return 0, c.explain(err)
}

// explain says why the connection ended.
func (c *forwarded) explain(err error) error {
	if c.closed.Load() {
		return err
	}
	// The reason may come a moment after the end.
	limit := time.NewTimer(100 * time.Millisecond)
	defer limit.Stop()
	select {
	case <-c.ended:
	case <-limit.C:
		return wayError{fmt.Errorf("the port-forward ended without a reason: %w", err)}
	}
	if c.why != nil {
		return c.why
	}
	// A tunnel that breaks is closed before its streams end; one of which the port hung up stays open.
	select {
	case <-c.tunnel.CloseChan():
		return wayError{fmt.Errorf("the port-forward broke off: %w", err)}
	default:
		return err
	}
}

// kubeletsReason is the error of a port-forward that the kubelet opened and could not carry out. It is the port's own only where
// that refused the connection, which runtimes tell with the address: "dial tcp4 127.0.0.1:2379: connect: connection
// refused" (containerd, CRI-O), "connect(5, AF=2 127.0.0.1:2379, 16): Connection refused" (socat).
func kubeletsReason(text string, port int) error {
	refused := regexp.MustCompile(fmt.Sprintf(`(?i):%d\b.*connection refused`, port))
	if refused.MatchString(text) {
		return errors.New(text)
	}
	return wayError{errors.New(text)}
}

// Write implements net.Conn.
func (c *forwarded) Write(p []byte) (int, error) {
	n, err := c.data.Write(p)
	if err != nil {
		err = c.explain(err)
	}
	return n, err
}

// Close implements net.Conn.
func (c *forwarded) Close() error {
	c.closed.Store(true)
	return c.end()
}

func (c *forwarded) end() error {
	var err error
	c.close.Do(func() { err = c.tunnel.Close() })
	return err
}

// LocalAddr implements net.Conn.
func (c *forwarded) LocalAddr() net.Addr { return forwardedAddr{} }

// RemoteAddr implements net.Conn.
func (c *forwarded) RemoteAddr() net.Addr { return forwardedAddr{} }

// SetDeadline implements net.Conn. Streams have no deadlines: whoever wants to stop waiting closes.
func (c *forwarded) SetDeadline(time.Time) error { return os.ErrNoDeadline }

// SetReadDeadline implements net.Conn, like SetDeadline.
func (c *forwarded) SetReadDeadline(time.Time) error { return os.ErrNoDeadline }

// SetWriteDeadline implements net.Conn, like SetDeadline.
func (c *forwarded) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

type forwardedAddr struct{}

// Network implements net.Addr.
func (forwardedAddr) Network() string { return "port-forward" }

// String implements net.Addr.
func (forwardedAddr) String() string { return "through the API server" }
