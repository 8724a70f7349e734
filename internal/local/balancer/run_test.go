package balancer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestNewConnectionsGoWhereThereAreFewest(t *testing.T) {
	t.Parallel()
	a, b, c := newAPIServer(t, "a"), newAPIServer(t, "b"), newAPIServer(t, "c")
	e := runEndpoint(t, a.Backend, b.Backend, c.Backend)
	e.allHealthy("a", "b", "c")
	count := map[string]int{}
	for range 9 {
		count[e.mustDial().server()]++
	}
	for _, name := range []string{"a", "b", "c"} {
		if count[name] != 3 {
			t.Errorf("nine open connections lie %v, want three each", count)
		}
	}
	eventually(t, "the status tells the connections", func() bool {
		s, _ := e.status().Backend("b")
		return s.Connections == 3
	})
}

func TestAClientNeverSeesABackendThatIsGone(t *testing.T) {
	t.Parallel()
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	e := runEndpoint(t, a.Backend, b.Backend)
	e.allHealthy("a", "b")
	a.CloseClientConnections()
	a.Close()
	start := time.Now()
	for i := range 20 {
		if got := e.mustDial().server(); got != "b" {
			t.Fatalf("connection %d went to %q, want b", i, got)
		}
	}
	t.Logf("FIGURE 20 connections and calls after a backend went: %s, no failure", time.Since(start))
	eventually(t, "a is unhealthy", func() bool { return e.health("a") == Unhealthy })
	s, _ := e.status().Backend("a")
	if !strings.Contains(s.Why, "refused") {
		t.Errorf("the status says of a: %q, want that connections are refused", s.Why)
	}
}

// What a client found out need not be found out again by the next probe.
func TestABackendThatRefusesAConnectionIsSuspected(t *testing.T) {
	t.Parallel()
	s := &server{pool: world(t, "a:healthy")}
	gone := s.pool.members[0]
	gone.Address = freeAddress(t)
	s.serve(context.Background(), connected(t).client)
	if gone.health != Unhealthy || len(gone.wake) != 1 {
		t.Fatalf("health %s, %d probes asked for; want it unhealthy and probed at once", gone.health, len(gone.wake))
	}
	<-gone.wake
	s.serve(context.Background(), connected(t).client)
	if len(gone.wake) != 0 {
		t.Error("each client has it probed again, however many they are")
	}
}

func TestConnectionsLeaveABackendThatFails(t *testing.T) {
	t.Parallel()
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	e := runEndpoint(t, a.Backend)
	e.allHealthy("a")
	c := e.mustDial()
	if got := c.server(); got != "a" {
		t.Fatalf("connected to %q, want a", got)
	}
	c.work()
	e.configure(a.Backend, b.Backend)
	e.allHealthy("b")
	a.code.Store(http.StatusInternalServerError)
	took := c.closedAfter(5 * time.Second)
	t.Logf("FIGURE a busy connection was moved %s after its API server stopped being ready", took)
	// Three probes must fail: the first within 500 ms, two more 200 ms apart.
	if took < 200*time.Millisecond {
		t.Errorf("the connection was closed after %s: one failed probe is not enough", took)
	}
	if got := e.mustDial().server(); got != "b" {
		t.Errorf("connected to %q, want b", got)
	}
	s, _ := e.status().Backend("a")
	if !strings.HasSuffix(s.Why, "failing: etcd") {
		t.Errorf("the status says of a: %q, want the check that fails", s.Why)
	}
}

func TestConnectionsStayWhereNoOtherBackendIsBetter(t *testing.T) {
	t.Parallel()
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	e := runEndpoint(t, a.Backend, b.Backend)
	e.allHealthy("a", "b")
	first, second := e.mustDial(), e.mustDial()
	first.work()
	second.work()
	a.code.Store(http.StatusInternalServerError)
	b.code.Store(http.StatusInternalServerError)
	eventually(t, "both are unhealthy", func() bool { return e.health("a") == Unhealthy && e.health("b") == Unhealthy })
	first.stays(time.Second)
	second.stays(10 * time.Millisecond)
	// The answer of an API server that is not ready is worth more than none.
	if got := e.mustDial().server(); got != "a" && got != "b" {
		t.Errorf("connected to %q, want a or b", got)
	}
	a.code.Store(http.StatusUnauthorized) // it serves, but nobody without a name
	eventually(t, "a is healthy", func() bool { return e.health("a") == Healthy })
}

func TestWithAllDownClientsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	e := runEndpoint(t, Backend{Name: "a", Address: freeAddress(t)}, Backend{Name: "b", Address: freeAddress(t)})
	eventually(t, "both are unhealthy", func() bool { return e.health("a") == Unhealthy && e.health("b") == Unhealthy })
	start := time.Now()
	_, err := e.dial()
	if err == nil {
		t.Fatal("a connection was made to nothing")
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("the client was told after %s, want at once", took)
	}
	if s := e.status(); s.Error != "" || s.Listen != e.listen {
		t.Errorf("status %+v, want an endpoint that goes on", s)
	}
}

// kubeadm init goes through the endpoint as soon as its own API server answers.
func TestABackendIsUsedAsSoonAsItAnswers(t *testing.T) {
	t.Parallel()
	a := newAPIServer(t, "a")
	a.code.Store(http.StatusForbidden) // before it has its roles
	e := runEndpoint(t, a.Backend)
	eventually(t, "a is unhealthy", func() bool { return e.health("a") == Unhealthy })
	start := time.Now()
	a.code.Store(http.StatusOK)
	eventually(t, "a is healthy", func() bool { return e.health("a") == Healthy })
	took := time.Since(start)
	t.Logf("FIGURE ready to healthy: %s", took)
	if took > 5*time.Second {
		t.Errorf("noticed after %s, want a probe every 200 ms", took)
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	e := runEndpoint(t, a.Backend)
	e.allHealthy("a")
	idle, busy := e.mustDial(), e.mustDial()
	if idle.server() != "a" || busy.server() != "a" {
		t.Fatal("the connections are not with a")
	}
	busy.work()
	draining := a.Backend
	draining.Draining = true

	e.configure(draining) // nobody else is there
	eventually(t, "a drains", func() bool { s, _ := e.status().Backend("a"); return s.Draining })
	if got := e.mustDial().server(); got != "a" {
		t.Errorf("connected to %q, want a: it drains, and there is no other", got)
	}
	idle.stays(time.Second)
	if !e.status().Drained("a") {
		t.Error("waiting for a has no end: its connections have nowhere to go")
	}

	e.configure(draining, b.Backend)
	e.allHealthy("b")
	start := time.Now()
	if e.status().Drained("a") {
		t.Error("a counts as drained while it has connections")
	}
	if took := idle.closedAfter(DrainGrace); took > DrainGrace/2 {
		t.Errorf("the idle connection was closed after %s, want at once", took)
	}
	if got := e.mustDial().server(); got != "b" {
		t.Errorf("connected to %q, want b: a drains", got)
	}
	busy.closedAfter(2 * DrainGrace)
	took := time.Since(start)
	if took < DrainGrace-time.Second || took > 2*DrainGrace {
		t.Errorf("the busy connection was closed after %s, want about %s", took, DrainGrace)
	}
	eventually(t, "a is drained", func() bool { return e.status().Drained("a") })
}

func TestReloadKeepsConnections(t *testing.T) {
	t.Parallel()
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	e := runEndpoint(t, a.Backend)
	e.allHealthy("a")
	c := e.mustDial()
	c.work()
	e.configure(a.Backend, b.Backend)
	e.allHealthy("b")
	c.stays(700 * time.Millisecond)

	if err := os.WriteFile(e.file, []byte(`{"listen":"`+e.listen+`","backends":[{"name":"a","address":"here"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the error is told", func() bool { return strings.Contains(e.status().Error, `backends[0].address is "here"`) })
	if got := e.mustDial().server(); got != "b" {
		t.Errorf("connected to %q, want b: the bad configuration must not be used", got)
	}
	if err := (Config{Listen: "127.0.0.1:1", Backends: nil}).Save(e.file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the error is told", func() bool { return strings.Contains(e.status().Error, "cannot change") })
	c.stays(700 * time.Millisecond)

	e.configure(b.Backend) // a leaves in good order
	eventually(t, "the error is gone", func() bool { return e.status().Error == "" })
	if s, ok := e.status().Backend("a"); !ok || !s.Removed || s.Connections != 1 {
		t.Errorf("status of a is %+v, want removed with one connection", s)
	}
	c.closedAfter(2 * DrainGrace)
	eventually(t, "a is gone", func() bool { _, ok := e.status().Backend("a"); return !ok })
	calls := a.calls.Load()
	probes := b.calls.Load()
	eventually(t, "b was probed on", func() bool { return b.calls.Load() >= probes+4 })
	if a.calls.Load() > calls+1 {
		t.Error("a is still probed")
	}
}

func TestHalfClose(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() { // says how much it was told, once the client has said all
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				n, _ := io.Copy(io.Discard, c)
				fmt.Fprintf(c, "%d bytes", n)
			}()
		}
	}()
	e := runEndpoint(t, Backend{Name: "a", Address: listener.Addr().String()})
	c, err := net.Dial("tcp", e.listen)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write(make([]byte, 100_000)); err != nil {
		t.Fatal(err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	answer, err := io.ReadAll(c)
	if string(answer) != "100000 bytes" || err != nil {
		t.Errorf("after the client closed its half, the answer is %q, %v", answer, err)
	}
}

// Not parallel: it counts what the whole process has.
func TestNothingIsLeft(t *testing.T) {
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	e := runEndpoint(t, a.Backend, b.Backend)
	e.allHealthy("a", "b")
	var open []*conn
	for range 20 {
		c := e.mustDial()
		c.server()
		open = append(open, c)
	}
	for _, c := range open[:10] {
		c.Close()
	}
	connections := func() (n int) {
		for _, b := range e.status().Backends {
			n += b.Connections
		}
		return n
	}
	eventually(t, "ten connections are left", func() bool { return connections() == 10 })
	e.stop()
	for _, c := range open[10:] {
		if took := c.closedAfter(5 * time.Second); took > 5*time.Second {
			t.Error("a connection outlived the endpoint")
		}
		c.Close()
	}
	if s := e.status(); s.Listen != "" {
		t.Errorf("the last status says that it listens on %s", s.Listen)
	}
	a.CloseClientConnections()
	b.CloseClientConnections()
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= goroutines })
	eventually(t, "no file is left open", func() bool { return openFiles(t) <= files })
}

func openFiles(t *testing.T) (n int) {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		to, _ := os.Readlink("/proc/self/fd/" + f.Name())
		if strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// After the host was booted, the process may be there before the address is.
func TestTheAddressMayComeLater(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "alpha.json")
	if err := (Config{Listen: "198.51.100.7:6443"}).Save(file); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, file) }()
	eventually(t, "it listens or says why not", func() bool {
		s, err := ReadStatus(file)
		return err == nil && (s.Listen != "" || s.Error != "")
	})
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("listening on an address that is not there yet gave %v", err)
	}
}

func TestRunSaysWhatItCannotDo(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, test := range []struct{ name, config, want string }{
		{"port in use", `{"listen":"` + taken.Addr().String() + `"}`, "address already in use"},
		{"no JSON", `{`, "unexpected end of JSON"},
		{"no address", `{"listen":"alpha:6443"}`, `listen is "alpha:6443", want an IP address and port`},
		{"a name twice", `{"listen":"127.0.0.1:1","backends":[{"name":"a","address":"1.1.1.1:1"},{"name":"a","address":"1.1.1.2:1"}]}`,
			`backends[1].name is "a"`},
		{"no name", `{"listen":"127.0.0.1:1","backends":[{"address":"1.1.1.1:1"}]}`, "backends[0].name is empty"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "alpha.json")
			if err := os.WriteFile(file, []byte(test.config), 0o600); err != nil {
				t.Fatal(err)
			}
			err := Run(context.Background(), file)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if s, err := ReadStatus(file); err != nil || !strings.Contains(s.Error, test.want) || s.Listen != "" {
				t.Errorf("status %+v, %v, want the error", s, err)
			}
		})
	}
	if _, err := ReadStatus(filepath.Join(t.TempDir(), "none.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a status that is not there gives %v", err)
	}
}

// A learner of etcd serves nobody, and says so at a port of its own.
func TestAProbeOfItsOwn(t *testing.T) {
	t.Parallel()
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	var ready atomic.Bool
	health := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !ready.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, "[+]data_corruption ok\n[-]non_learner failed: member is learner")
		}
	}))
	defer health.Close()
	a.Probe = health.URL + "/readyz"
	e := runEndpoint(t, a.Backend, b.Backend)
	eventually(t, "a is unhealthy, and says why", func() bool {
		s, err := ReadStatus(e.file)
		one, _ := s.Backend("a")
		return err == nil && one.Health == Unhealthy && strings.Contains(one.Why, "failing: non_learner")
	})
	ready.Store(true)
	eventually(t, "a is healthy", func() bool { return e.health("a") == Healthy })
	if n := a.calls.Load(); n > 0 {
		t.Errorf("its other port is asked %d times", n)
	}
}
