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
	"k8s.io/streaming/pkg/httpstream"
	streamspdy "k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/quorate/quorate/internal/program/untrusted"
)

// wayError is a failure of who stands between us and a port, the API server, the kubelet or the network: it proves nothing
// about who listens there.
type wayError struct{ error }

// Unwrap returns what failed.
func (e wayError) Unwrap() error { return e.error }

// WayFailed tells the dialler that it is not known what listens on the port.
func (wayError) WayFailed() bool { return true }

// tunnelled is the protocol of port-forwards inside a websocket.
const tunnelled = "SPDY/3.1+" + portforward.PortForwardProtocolV1Name

// forward opens a connection to a port of a pod in kube-system, through the API server. That it opens does not
// mean that anybody listens there.
func (s *tunnels) forward(ctx context.Context, config *rest.Config, pod string, port int) (net.Conn, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("forwarding a port: %w", err)
	}
	at := base.JoinPath("api/v1/namespaces/kube-system/pods", pod, "portforward")
	conn, err := s.open(ctx, config, at)
	if err != nil {
		return nil, forwarding(err)
	}
	c := &forwarded{port: port, spdy: newSPDY(conn, portforward.PingPeriod), ended: make(chan struct{})}
	// Streams know no context.
	giveUp := context.AfterFunc(ctx, func() { _ = c.end() })
	err = c.open()
	if !giveUp() {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.end() // what went wrong before is what counts
		return nil, forwarding(err)
	}
	return c, nil
}

// forwarding is the error of a port-forward.
func forwarding(err error) error {
	return fmt.Errorf("forwarding a port through the API server: %w", err)
}

// tunnels remembers what a cluster's API server knows. The zero value is ready for use.
type tunnels struct {
	// spdy: it knew no websockets the last time. Older API servers and some proxies know only SPDY.
	spdy atomic.Bool
}

// open opens a tunnel to a pod. It is a websocket, or SPDY where that was refused, also the next time, until something fails.
func (s *tunnels) open(ctx context.Context, config *rest.Config, at *url.URL) (io.ReadWriteCloser, error) {
	if !s.spdy.Load() {
		conn, err := openWebsocket(ctx, config, at)
		if !httpstream.IsUpgradeFailure(err) && !httpstream.IsHTTPSProxyError(err) {
			return conn, err
		}
	}
	conn, err := openSPDY(ctx, config, at)
	s.spdy.Store(err == nil)
	return conn, err
}

func openWebsocket(ctx context.Context, config *rest.Config, at *url.URL) (io.ReadWriteCloser, error) {
	opener := &websocket{config: config}
	transport, err := rest.HTTPWrappersForConfig(config, opener)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	_ = response.Body.Close() // it is empty: the connection is gorilla's
	return portforward.NewTunnelingConnection("etcd", opener.conn), nil
}

func openSPDY(ctx context.Context, config *rest.Config, at *url.URL) (io.ReadWriteCloser, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	// HTTP/1.1, as its connections alone can change to another protocol, and each for one request.
	transport, err := rest.HTTPWrappersForConfig(config, &http.Transport{
		Proxy: proxyOf(config), TLSClientConfig: tlsConfig, DialContext: config.Dial, DisableKeepAlives: true,
		MaxResponseHeaderBytes: untrusted.MostHeader,
	})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set(httpstream.HeaderConnection, httpstream.HeaderUpgrade)
	request.Header.Set(httpstream.HeaderUpgrade, streamspdy.HeaderSpdy31)
	request.Header.Set(httpstream.HeaderProtocolVersion, portforward.PortForwardProtocolV1Name)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	conn, is := response.Body.(io.ReadWriteCloser)
	if response.StatusCode != http.StatusSwitchingProtocols || !is {
		defer func() { _ = response.Body.Close() }()
		return nil, untrusted.Refusal(response)
	}
	return conn, nil
}

// The two streams that one forwarded connection consists of.
const (
	failures uint32 = 1
	content  uint32 = 3
)

// forwarded is one connection through the API server. No goroutine serves it: each Read takes in what comes.
type forwarded struct {
	port int
	spdy *spdyConn

	close sync.Once
	// closed: the end is our own doing.
	closed atomic.Bool

	reading sync.Mutex
	// opened are the streams that were answered.
	opened [content + 1]bool
	// left is how much of the frame of content that is read has not been, last whether it is the last.
	left int
	last bool
	// over are the streams that the other end has closed.
	over [content + 1]bool
	// text is what came on the stream for failures.
	text []byte
	// ended is closed when nothing more will be read.
	ended chan struct{}
	// why it ended; it is written before ended is closed.
	why error
}

// open opens the two streams, and waits until they are.
func (c *forwarded) open() error {
	c.reading.Lock()
	defer c.reading.Unlock()
	headers := map[string]string{corev1.PortHeader: strconv.Itoa(c.port), corev1.PortForwardRequestIDHeader: "0"}
	headers[corev1.StreamType] = corev1.StreamTypeError
	if err := c.openStream(failures, headers); err != nil {
		return fmt.Errorf("opening the stream for errors: %w", err)
	}
	// Nothing is ever written to it.
	if err := c.spdy.end(failures); err != nil {
		return fmt.Errorf("closing our end of the stream for errors: %w", err)
	}
	headers[corev1.StreamType] = corev1.StreamTypeData
	if err := c.openStream(content, headers); err != nil {
		return fmt.Errorf("opening the stream for data: %w", err)
	}
	return nil
}

func (c *forwarded) openStream(id uint32, headers map[string]string) error {
	if err := c.spdy.open(id, headers); err != nil {
		return err
	}
	for !c.opened[id] {
		if c.over[id] {
			return errors.New("it was refused")
		}
		if err := c.advance(); err != nil {
			return fmt.Errorf("the tunnel broke off before an answer: %w", err)
		}
	}
	return nil
}

// advance takes in the next frame; of content its beginning.
func (c *forwarded) advance() error {
	got, err := c.spdy.next()
	if err != nil {
		return err
	}
	last := got.flags&flagEnd != 0
	if got.control {
		return c.control(got, last)
	}
	switch got.of {
	case content:
		c.left, c.last = got.length, last
		c.over[content] = c.over[content] || last && c.left == 0
		return nil
	case failures:
		c.over[failures] = c.over[failures] || last
		return c.spdy.take(got, &c.text, maxReason)
	default:
		return fmt.Errorf("data of a stream that was not opened: %d", got.of)
	}
}

// control notes what a control frame says of the streams that were opened. last: the stream ends with it.
func (c *forwarded) control(got frame, last bool) error {
	says, err := c.spdy.handle(got)
	if err == nil && int(says.id) < len(c.opened) {
		c.opened[says.id] = c.opened[says.id] || says.answered
		c.over[says.id] = c.over[says.id] || !says.answered || last
	}
	return err
}

// maxReason is how much is kept of why a port-forward failed.
const maxReason = 4 << 10

// Read implements net.Conn.
func (c *forwarded) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	select {
	case <-c.ended:
		return 0, c.why
	default:
	}
	n, err := c.read(p)
	if err != nil {
		c.why = err
		close(c.ended)
	}
	return n, err
}

func (c *forwarded) read(p []byte) (int, error) {
	for c.left == 0 && !c.over[content] && (!c.over[failures] || len(c.text) == 0) {
		if err := c.advance(); err != nil {
			return 0, c.broke(err)
		}
	}
	if c.left == 0 {
		return 0, c.reason()
	}
	n, err := c.spdy.read(p[:min(len(p), c.left)])
	c.left -= n
	c.over[content] = c.left == 0 && c.last
	if err != nil {
		return n, c.broke(err)
	}
	return n, nil
}

// reason says why nothing more comes: the port hung up, or it was not reached. It may be told a moment after the end.
func (c *forwarded) reason() error {
	limit := time.AfterFunc(100*time.Millisecond, func() { _ = c.end() })
	defer limit.Stop()
	for !c.over[failures] {
		if err := c.advance(); err != nil {
			return c.broke(err)
		}
	}
	if len(c.text) == 0 {
		return io.EOF
	}
	_ = c.end() // the reason is what counts
	return kubeletsReason(string(c.text), c.port)
}

// broke is the error of a tunnel that ended before its streams did.
func (c *forwarded) broke(err error) error {
	if c.closed.Load() {
		return err
	}
	_ = c.end() // that it is broken is what counts
	return wayError{fmt.Errorf("the port-forward broke off: %w", err)}
}

// kubeletsReason is the error of a port-forward that the kubelet opened and could not carry out. It is the port's own only where
// that refused the connection. Runtimes tell it with the address: "dial tcp4 127.0.0.1:2379: connect: connection
// refused" (containerd, CRI-O), "connect(5, AF=2 127.0.0.1:2379, 16): Connection refused" (socat).
func kubeletsReason(text string, port int) error {
	text = untrusted.Shown(text)
	refused := regexp.MustCompile(fmt.Sprintf(`(?i):%d\b.*connection refused`, port))
	if refused.MatchString(text) {
		return errors.New(text)
	}
	return wayError{errors.New(text)}
}

// Write implements net.Conn.
func (c *forwarded) Write(p []byte) (int, error) {
	n, err := c.spdy.send(content, p)
	if err == nil || c.closed.Load() {
		return n, err
	}
	// Who reads may be just about to learn why.
	limit := time.NewTimer(100 * time.Millisecond)
	defer limit.Stop()
	select {
	case <-c.ended:
		return n, c.why
	case <-limit.C:
		return n, c.broke(err)
	}
}

// Close implements net.Conn.
func (c *forwarded) Close() error {
	c.closed.Store(true)
	return c.end()
}

func (c *forwarded) end() error {
	var err error
	c.close.Do(func() { err = c.spdy.close() })
	return err
}

// LocalAddr implements net.Conn.
func (c *forwarded) LocalAddr() net.Addr { return forwardedAddr{} }

// RemoteAddr implements net.Conn.
func (c *forwarded) RemoteAddr() net.Addr { return forwardedAddr{} }

// SetDeadline implements net.Conn. Streams have no deadlines: a caller that wants to stop waiting closes.
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
