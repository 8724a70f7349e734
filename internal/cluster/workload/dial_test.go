package workload

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upgradeproxy "k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	streamspdy "k8s.io/streaming/pkg/httpstream/spdy"
	"k8s.io/streaming/pkg/httpstream/wsstream"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// forwarder serves port-forwards as API server and kubelet do: the one tunnels to the other.
type forwarder struct {
	kubelet *httptest.Server
	// spdyOnly refuses websockets.
	spdyOnly bool
	// hang never answers, as when the kubelet does not.
	hang chan struct{}

	requests, websockets atomic.Int32

	mu sync.Mutex
	// conns are the connections to the kubelet.
	conns []net.Conn
}

// dropAll ends all connections to the kubelet, as when it is killed.
func (f *forwarder) dropAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.conns {
		_ = conn.Close()
	}
}

func (f *forwarder) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/api/v1/namespaces/kube-system/pods/etcd-n/portforward" {
		http.NotFound(w, r)
		return
	}
	f.requests.Add(1)
	if f.hang != nil {
		<-f.hang
	}
	at, _ := url.Parse(f.kubelet.URL)
	upgrade := upgradeproxy.NewUpgradeAwareHandler(at, nil, false, true, refuses{})
	switch {
	case !wsstream.IsWebSocketRequest(r):
		upgrade.ServeHTTP(w, r)
	case f.spdyOnly:
		http.Error(w, "what is a websocket?", http.StatusBadRequest)
	default:
		f.websockets.Add(1)
		proxy.NewTunnelingHandler(upgrade).ServeHTTP(w, r)
	}
}

// refuses answers as an API server does when it reaches no kubelet.
type refuses struct{}

func (refuses) Error(w http.ResponseWriter, _ *http.Request, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusInternalServerError)
	_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Code: 500,
		Message: err.Error()})
}

// forward connects the streams of one port-forward with the port on loopback.
func (f *forwarder) forward(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 2)
	conn := streamspdy.NewResponseUpgrader().UpgradeResponse(w, r, func(s httpstream.Stream, _ <-chan struct{}) error {
		streams <- s
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	failures, data := <-streams, <-streams
	if failures.Headers().Get("streamType") != "error" || data.Headers().Get("streamType") != "data" {
		return
	}
	backend, err := net.Dial("tcp", "127.0.0.1:"+data.Headers().Get("port"))
	if err != nil {
		fmt.Fprintf(failures, "error forwarding port: %v", err)
		failures.Close()
		data.Close()
		<-conn.CloseChan()
		return
	}
	defer backend.Close()
	failures.Close()
	go func() { _, _ = io.Copy(data, backend); data.Close() }()
	go func() { _, _ = io.Copy(backend, data); backend.Close() }()
	<-conn.CloseChan()
}

// echo answers everything it is told, on all addresses of loopback.
type echo struct {
	port  int
	conns atomic.Int32 // open ones
}

func newEcho(t *testing.T) *echo {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	e := &echo{port: l.Addr().(*net.TCPAddr).Port}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			e.conns.Add(1)
			go func() {
				defer e.conns.Add(-1)
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			}()
		}
	}()
	return e
}

// behind makes the server forward ports.
func (f *forwarder) behind(t *testing.T, s *server) {
	t.Helper()
	f.kubelet = httptest.NewUnstartedServer(http.HandlerFunc(f.forward))
	f.kubelet.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.conns = append(f.conns, conn)
		return ctx
	}
	f.kubelet.Start()
	t.Cleanup(f.kubelet.CloseClientConnections)
	s.more = f.serve
}

func serveForwards(t *testing.T, f *forwarder) *rest.Config {
	t.Helper()
	s := newServer(t)
	f.behind(t, s)
	return restConfig(t, s.kubeconfig(t, s.URL, "first"))
}

// chat sends a lot and expects it back.
func chat(t *testing.T, conn net.Conn) {
	t.Helper()
	sent := strings.Repeat("0123456789abcdef", 1<<14)
	go func() { _, _ = io.WriteString(conn, sent) }()
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != sent {
		t.Fatalf("not what was sent came back: %v", err)
	}
}

func settles(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline, tick := time.NewTimer(3*time.Second), time.NewTicker(5*time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for !is() {
		select {
		case <-deadline.C:
			t.Fatalf("not within 3 s: %s", what)
		case <-tick.C:
		}
	}
}

func TestForward(t *testing.T) {
	for _, f := range []*forwarder{{}, {spdyOnly: true}} {
		t.Run(fmt.Sprintf("spdyOnly=%t", f.spdyOnly), func(t *testing.T) {
			config, e := serveForwards(t, f), newEcho(t)
			conn, err := new(tunnels).forward(t.Context(), config, "etcd-n", e.port)
			must(t, err)
			chat(t, conn)
			if (f.websockets.Load() == 0) != f.spdyOnly {
				t.Errorf("%d websockets", f.websockets.Load())
			}
			read := make(chan error, 1)
			go func() { _, err := conn.Read(make([]byte, 1)); read <- err }()
			must(t, conn.Close())
			select {
			case err := <-read:
				if err == nil {
					t.Error("something came over a closed connection")
				}
			case <-time.After(time.Second):
				t.Error("closing did not wake the reader")
			}
			settles(t, "the other end is closed", func() bool { return e.conns.Load() == 0 })
		})
	}
}

// TestForwardRemembersSPDY: what a server does not know it is not asked each time, but again after a failure.
func TestForwardRemembersSPDY(t *testing.T) {
	f, e := &forwarder{spdyOnly: true}, newEcho(t)
	config, tunnels := serveForwards(t, f), &tunnels{}
	open := func() {
		t.Helper()
		conn, err := tunnels.forward(t.Context(), config, "etcd-n", e.port)
		must(t, err)
		chat(t, conn)
		must(t, conn.Close())
	}
	for range 3 {
		open()
	}
	if n := f.requests.Load(); n != 4 {
		t.Errorf("%d requests for three port-forwards, want one more, for the first websocket", n)
	}
	if _, err := tunnels.forward(t.Context(), config, "etcd-other", 1); err == nil {
		t.Error("a port of a pod that does not exist was opened")
	}
	f.spdyOnly = false
	open()
	if n := f.websockets.Load(); n != 1 {
		t.Errorf("%d websockets after a failure, want 1", n)
	}
}

func TestForwardSaysWhatTheKubeletSaid(t *testing.T) {
	config := serveForwards(t, &forwarder{})
	conn, err := new(tunnels).forward(t.Context(), config, "etcd-n", unusedPort(t))
	must(t, err)
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "error forwarding port: ") ||
		!strings.Contains(err.Error(), "connection refused") {
		t.Errorf("got %v", err)
	}
	if _, err := new(tunnels).forward(t.Context(), config, "etcd-other", 1); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("no such pod: %v", err)
	}
}

func TestForwardEndsWithItsContext(t *testing.T) {
	f := &forwarder{hang: make(chan struct{})}
	config := serveForwards(t, f)
	defer close(f.hang)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	begun := time.Now()
	if _, err := new(tunnels).forward(ctx, config, "etcd-n", 1); err == nil || time.Since(begun) > time.Second {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
}

// gRPC asks for deadlines when it closes a connection, and waits for its reader to end.
// unhurried is more than anything takes that does not hang, on a busy host too.
const unhurried = 5 * time.Second

func TestForwardCarriesGRPC(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	dial := Dial(serveForwards(t, &forwarder{}), "n", "", l.Addr().(*net.TCPAddr).Port)
	client, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }))
	must(t, err)
	for range 3 {
		_, err = grpc_health_v1.NewHealthClient(client).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		must(t, err)
	}
	begun := time.Now()
	must(t, client.Close())
	if took := time.Since(begun); took > unhurried {
		t.Errorf("closing took %s", took)
	}
}

func TestDialLearnsTheBetterWay(t *testing.T) {
	f := &forwarder{}
	config, e := serveForwards(t, f), newEcho(t)
	var w ways
	open := func() net.Conn {
		t.Helper()
		conn, err := w.dial(t.Context(), config, "n", "127.0.0.1", e.port)
		must(t, err)
		return conn
	}
	conn := open()
	if f.requests.Load() != 1 {
		t.Errorf("%d port-forwards, want the first way to be one", f.requests.Load())
	}
	chat(t, conn)
	must(t, conn.Close())
	if w.prefersDirect("n") {
		t.Error("a port-forward that worked is not trusted")
	}

	// A port-forward that opens and brings nothing.
	hollow, err := w.dial(t.Context(), config, "n", "", unusedPort(t))
	must(t, err)
	if _, err := hollow.Read(make([]byte, 1)); err == nil {
		t.Fatal("something was read from nobody")
	}
	if !w.prefersDirect("n") || w.prefersDirect("other") {
		t.Error("a port-forward that brought nothing is tried first again")
	}
	before := f.requests.Load()
	conn = open()
	chat(t, conn)
	if f.requests.Load() != before || !w.prefersDirect("n") {
		t.Error("the direct way was not tried first")
	}

	// The direct way fails: the other one at once.
	_ = conn.Close()
	begun := time.Now()
	conn, err = w.dial(t.Context(), config, "n", "127.0.0.2", e.port)
	must(t, err)
	chat(t, conn)
	if took := time.Since(begun); took > unhurried || w.prefersDirect("n") {
		t.Errorf("took %s, prefers the direct way %t", took, w.prefersDirect("n"))
	}
}

func TestDialWaysThatDoNotWork(t *testing.T) {
	e := newEcho(t)
	hung := &forwarder{hang: make(chan struct{})}
	config := serveForwards(t, hung)
	defer close(hung.hang)
	begun := time.Now()
	conn, err := Dial(config, "n", "127.0.0.1", e.port)(t.Context())
	must(t, err)
	chat(t, conn)
	if took := time.Since(begun); took < headStart || took > unhurried {
		t.Errorf("the direct way was begun after %s, want %s", took, headStart)
	}

	begun = time.Now()
	conn, err = Dial(config, "gone", "127.0.0.1", e.port)(t.Context())
	must(t, err)
	chat(t, conn)
	if took := time.Since(begun); took > unhurried {
		t.Errorf("with no such pod the direct way was begun after %s", took)
	}

	_, err = Dial(config, "gone", "127.0.0.1", unusedPort(t))(t.Context())
	if err == nil || !strings.Contains(err.Error(), "404") || !strings.Contains(err.Error(), "refused") ||
		!strings.Contains(err.Error(), "Node gone") || strings.Contains(err.Error(), "\n") {
		t.Errorf("both fail: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begun = time.Now()
	if _, err = Dial(config, "n", "", e.port)(ctx); err == nil || time.Since(begun) > headStart {
		t.Errorf("no time: %v after %s", err, time.Since(begun))
	}
	if _, err = Dial(nil, "n", "", e.port)(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no way") {
		t.Errorf("no way: %v", err)
	}
}

// TestDialDirect: an address that answers is enough, and one that refuses or is silent costs next to nothing.
func TestDialDirect(t *testing.T) {
	f := &forwarder{}
	config, e := serveForwards(t, f), newEcho(t)
	conn, err := DialDirect(config, "n", "127.0.0.1", e.port)(t.Context())
	must(t, err)
	chat(t, conn)
	must(t, conn.Close())
	if f.requests.Load() != 0 {
		t.Errorf("%d port-forwards beside an address that answers", f.requests.Load())
	}
	for _, ip := range []string{"", "127.0.0.2", "192.0.2.1"} { // none, one that refuses, one that is nobody's
		begun, before := time.Now(), f.requests.Load()
		conn, err := DialDirect(config, "n", ip, e.port)(t.Context())
		must(t, err)
		chat(t, conn)
		if took := time.Since(begun); f.requests.Load() != before+1 || took > headStart {
			t.Errorf("%q: %d port-forwards, after %s", ip, f.requests.Load()-before, took)
		}
	}
}

// ended is a connection that tells when it is closed.
type ended struct {
	net.Conn
	once   sync.Once
	closed chan struct{}
}

func (e *ended) Close() error { e.once.Do(func() { close(e.closed) }); return nil }

// TestRaceKeepsTheSecondWay: one that began because the first had failed has more time than the first had alone.
func TestRaceKeepsTheSecondWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want, other := net.Pipe()
		defer want.Close()
		defer other.Close()
		broken := func(context.Context) (net.Conn, error) { return nil, errors.New("broken") }
		slow := func(context.Context) (net.Conn, error) {
			time.Sleep(2 * headStart)
			return want, nil
		}
		if got, err := race(t.Context(), broken, slow, headStart); got != want || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestRaceClosesTheLoser(t *testing.T) {
	slow, fast := &ended{closed: make(chan struct{})}, &ended{closed: make(chan struct{})}
	release := make(chan struct{})
	conn, err := race(t.Context(), func(context.Context) (net.Conn, error) { <-release; return slow, nil },
		func(context.Context) (net.Conn, error) { return fast, nil }, headStart)
	if err != nil || conn != fast {
		t.Fatalf("%v, %v", conn, err)
	}
	close(release)
	select {
	case <-slow.closed:
	case <-fast.closed:
		t.Error("the winner was closed")
	case <-time.After(time.Second):
		t.Error("the loser was not closed")
	}
}

func TestConnectionsDial(t *testing.T) {
	f, e := &forwarder{}, newEcho(t)
	s := newServer(t)
	f.behind(t, s)
	c := connect(t, fake.NewClientBuilder().WithObjects(kubeconfigSecret(s.kubeconfig(t, s.URL, "first"))).Build(), quick)
	dial := c.Dial(demo, "n", "", e.port)
	await(t, c, 2*time.Second, "reachable", reachable)
	for i := range 2 {
		conn, err := dial(t.Context())
		must(t, err)
		chat(t, conn)
		must(t, conn.Close())
		if int(f.requests.Load()) != i+1 {
			t.Errorf("%d port-forwards", f.requests.Load())
		}
	}
	// Each Node's better way is remembered between calls.
	hollow, err := c.Dial(demo, "n", "", unusedPort(t))(t.Context())
	must(t, err)
	_, _ = hollow.Read(make([]byte, 1))
	before := f.requests.Load()
	conn, err := c.Dial(demo, "n", "127.0.0.1", e.port)(t.Context())
	must(t, err)
	chat(t, conn)
	if f.requests.Load() != before {
		t.Error("forgotten")
	}
	c.Forget(demo)
	if _, err := dial(t.Context()); err == nil || !strings.Contains(err.Error(), "ns/demo") {
		t.Errorf("after Forget: %v", err)
	}
}

func unusedPort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	number, err := strconv.Atoi(port)
	must(t, err)
	return number
}
