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
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/transport/websocket"
	"k8s.io/streaming/pkg/httpstream"
	streamspdy "k8s.io/streaming/pkg/httpstream/spdy"
)

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
	failures, err := tunnel.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("opening the stream for errors: %w", err)
	}
	// Nothing is ever written to it.
	if err := failures.Close(); err != nil {
		return nil, fmt.Errorf("closing our end of the stream for errors: %w", err)
	}
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := tunnel.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("opening the stream for data: %w", err)
	}
	c := &forwarded{data: data, tunnel: tunnel, ended: make(chan struct{})}
	go c.listen(failures)
	return c, nil
}

// forwarded is one connection through the API server.
type forwarded struct {
	data   io.ReadWriteCloser
	tunnel httpstream.Connection

	close sync.Once
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
		c.why = errors.New(string(text))
		_ = c.Close() // the reason is told by Read
	}
}

// Read implements net.Conn.
func (c *forwarded) Read(p []byte) (int, error) {
	n, err := c.data.Read(p)
	if n > 0 || err == nil {
		return n, err
	}
	// The reason may come a moment after the end.
	select {
	case <-c.ended:
		if c.why != nil {
			return 0, c.why
		}
	case <-time.After(100 * time.Millisecond):
	}
	return 0, err
}

// Write implements net.Conn.
func (c *forwarded) Write(p []byte) (int, error) { return c.data.Write(p) }

// Close implements net.Conn.
func (c *forwarded) Close() error {
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
