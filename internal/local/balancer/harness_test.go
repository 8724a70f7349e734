package balancer

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestMain lets this test binary stand for quorate-node, so that the tests of processes have a real one.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "endpoint" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := Run(ctx, os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// apiServer answers /readyz with a code that a test sets, / with its name, and /busy when it has heard all.
type apiServer struct {
	*httptest.Server
	Backend
	code  atomic.Int32
	calls atomic.Int32
}

func newAPIServer(t testing.TB, name string) *apiServer {
	t.Helper()
	s := &apiServer{}
	s.code.Store(http.StatusOK)
	mux := http.NewServeMux()
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		s.calls.Add(1)
		w.WriteHeader(int(s.code.Load()))
		fmt.Fprintln(w, "[+]ping ok\n[-]etcd failed: reason withheld")
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, name) })
	mux.HandleFunc("/busy", func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	mux.HandleFunc("/stream", stream)
	s.Server = httptest.NewTLSServer(mux)
	s.Backend = Backend{Name: name, Address: s.Listener.Addr().String()}
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// stream sends a line every 50 ms until the client goes.
func stream(w http.ResponseWriter, r *http.Request) {
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	for {
		fmt.Fprintln(w, "x")
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
			return
		case <-pace.C:
		}
	}
}

// endpoint is a running balancer.
type endpoint struct {
	t      testing.TB
	file   string
	listen string
	cancel func()
	ended  chan error
}

// freeAddress is an address on loopback on which nobody listens.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func runEndpoint(t testing.TB, backends ...Backend) *endpoint {
	t.Helper()
	e := &endpoint{t: t, file: filepath.Join(t.TempDir(), "alpha.json"), listen: freeAddress(t), ended: make(chan error, 1)}
	e.configure(backends...)
	ctx, cancel := context.WithCancel(context.Background())
	e.cancel = cancel
	go func() { e.ended <- Run(ctx, e.file) }()
	t.Cleanup(e.stop)
	eventually(t, "the endpoint listens", func() bool { return e.status().Listen != "" })
	return e
}

func (e *endpoint) configure(backends ...Backend) {
	e.t.Helper()
	if err := (Config{Listen: e.listen, Backends: backends}).Save(e.file); err != nil {
		e.t.Fatal(err)
	}
}

func (e *endpoint) stop() {
	e.cancel()
	select {
	case err := <-e.ended:
		if err != nil {
			e.t.Errorf("the endpoint ended with %v", err)
		}
		e.ended <- nil
	case <-time.After(10 * time.Second):
		e.t.Error("the endpoint did not end")
	}
}

func (e *endpoint) status() Status {
	s, err := ReadStatus(e.file)
	if err != nil {
		return Status{}
	}
	return s
}

// health is the state of one backend as the status file tells it.
func (e *endpoint) health(name string) Health {
	b, _ := e.status().Backend(name)
	return b.Health
}

func (e *endpoint) allHealthy(names ...string) {
	e.t.Helper()
	for _, n := range names {
		eventually(e.t, n+" is healthy", func() bool { return e.health(n) == Healthy })
	}
}

// conn is one client's TLS connection through an endpoint.
type conn struct {
	*tls.Conn
	t testing.TB
	r *bufio.Reader
}

// dial returns an error only when the endpoint gives no connection to any backend.
func (e *endpoint) dial() (*conn, error) {
	e.t.Helper()
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{InsecureSkipVerify: true}}
	c, err := dialer.Dial("tcp", e.listen)
	if err != nil {
		return nil, err
	}
	e.t.Cleanup(func() { _ = c.Close() })
	return &conn{Conn: c.(*tls.Conn), t: e.t, r: bufio.NewReader(c)}, nil
}

func (e *endpoint) mustDial() *conn {
	e.t.Helper()
	c, err := e.dial()
	if err != nil {
		e.t.Fatalf("connecting through the endpoint: %v", err)
	}
	return c
}

func (c *conn) send(path string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path); err != nil {
		c.t.Fatalf("asking for %s: %v", path, err)
	}
}

// work begins a request that is under way until the connection ends: a part of it is sent every 50 ms.
func (c *conn) work() {
	c.t.Helper()
	if _, err := fmt.Fprint(c, "POST /busy HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		c.t.Fatalf("beginning a request: %v", err)
	}
	go func() {
		pace := time.NewTicker(50 * time.Millisecond)
		defer pace.Stop()
		for ; ; <-pace.C {
			if _, err := fmt.Fprint(c, "1\r\nx\r\n"); err != nil {
				return
			}
		}
	}()
}

// server asks the connection who is at its other end.
func (c *conn) server() string {
	c.t.Helper()
	c.send("/")
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatalf("reading an answer: %v", err)
	}
	defer response.Body.Close()
	var name strings.Builder
	if _, err := bufio.NewReader(response.Body).WriteTo(&name); err != nil {
		c.t.Fatal(err)
	}
	return name.String()
}

// closedAfter reads until the connection ends and returns how long that took.
func (c *conn) closedAfter(limit time.Duration) time.Duration {
	c.t.Helper()
	start := time.Now()
	_ = c.SetReadDeadline(start.Add(limit))
	for {
		if _, err := c.r.ReadByte(); err != nil {
			if os.IsTimeout(err) {
				c.t.Fatalf("the connection is still open after %s", limit)
			}
			return time.Since(start)
		}
	}
}

// stays fails the test if the connection ends within the time.
func (c *conn) stays(d time.Duration) {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(d))
	for {
		if _, err := c.r.ReadByte(); err != nil {
			if !os.IsTimeout(err) {
				c.t.Fatalf("the connection ended: %v", err)
			}
			return
		}
	}
}

func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); !done(); <-tick.C {
		if time.Since(start) > 2*time.Minute {
			t.Fatalf("not after two minutes: %s", what)
		}
	}
}
