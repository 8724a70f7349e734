package balancer

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// frozen is a way to a server on which nothing moves any more from a moment on, as on a machine that was frozen or has lost its network:
// connections are accepted, none is reset, and nothing is answered.
type frozen struct {
	Backend
	mu    sync.Mutex
	still bool
}

func newFrozen(t *testing.T, to *apiServer) *frozen {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &frozen{Backend: Backend{Name: to.Name, Address: listener.Addr().String()}}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = near.Close() })
			far, err := net.Dial("tcp", to.Address)
			if err != nil {
				continue
			}
			t.Cleanup(func() { _ = far.Close() })
			go f.carry(far, near)
			go f.carry(near, far)
		}
	}()
	return f
}

// carry copies one way until nothing moves any more.
func (f *frozen) carry(to io.Writer, from io.Reader) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		f.mu.Lock()
		still := f.still
		f.mu.Unlock()
		if err != nil || still {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (f *frozen) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.still = true
}

func TestConnectionsLeaveABackendThatFreezes(t *testing.T) {
	t.Parallel()
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	still := newFrozen(t, a)
	e := runEndpoint(t, still.Backend)
	e.allHealthy("a")
	c := e.mustDial()
	if got := c.server(); got != "a" {
		t.Fatalf("connected to %q, want a", got)
	}
	e.configure(still.Backend, b.Backend)
	e.allHealthy("a", "b")
	c.send("/")
	still.freeze()
	c.closedAfter(20 * time.Second)
	eventually(t, "a is unhealthy because it says nothing", func() bool {
		s, _ := e.status().Backend("a")
		return s.Health == Unhealthy && strings.Contains(s.Why, "says nothing")
	})
	if got := e.mustDial().server(); got != "b" {
		t.Errorf("connected to %q, want b", got)
	}
}

// slow lets an API server answer no ping before the test ends.
func slow(t *testing.T, s *apiServer) {
	t.Helper()
	end := make(chan struct{})
	answers := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez/ping" {
			select {
			case <-end:
			case <-r.Context().Done():
			}
		}
		answers.ServeHTTP(w, r)
	})
	t.Cleanup(func() { close(end) })
}

// stream asks for an answer that goes on until the connection ends, and is read until then.
func (c *conn) stream() {
	c.t.Helper()
	c.send("/stream")
	if _, err := http.ReadResponse(c.r, nil); err != nil {
		c.t.Fatalf("beginning an answer: %v", err)
	}
}

func TestASlowBackendThatSendsKeepsItsConnections(t *testing.T) {
	t.Parallel()
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	slow(t, a)
	e := runEndpoint(t, a.Backend)
	e.allHealthy("a")
	c := e.mustDial()
	c.stream()
	e.configure(a.Backend, b.Backend)
	e.allHealthy("a", "b")
	c.stays(3 * silentAfter)
	if got := e.health("a"); got != Healthy {
		t.Errorf("a is %s, which sends all the time", got)
	}
}

func TestConnectionsStayWhereEveryBackendIsSlow(t *testing.T) {
	t.Parallel()
	a, b := newAPIServer(t, "a"), newAPIServer(t, "b")
	slow(t, a)
	slow(t, b)
	e := runEndpoint(t, a.Backend, b.Backend)
	e.allHealthy("a", "b")
	c := e.mustDial()
	c.server()
	c.stays(3 * silentAfter)
}

func TestSilent(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for _, c := range []struct {
		what        string
		owes, other time.Time // since when it owes an answer, and when the other was asked what it answered last
		removed     bool      // the other
		silent      bool
	}{
		{what: "it owes nothing", other: ago(0)},
		{what: "it may yet answer", owes: ago(silentAfter - time.Millisecond), other: ago(0)},
		{what: "it owes an answer, and another answers", owes: ago(silentAfter), other: ago(100 * time.Millisecond), silent: true},
		{what: "the other was asked when it was, and not since", owes: ago(silentAfter), other: ago(silentAfter - 100*time.Millisecond)},
		{what: "the other has never answered", owes: ago(time.Minute)},
		{what: "the other is about to go", owes: ago(silentAfter), other: ago(0), removed: true},
	} {
		p := newPool()
		m := &member{owes: c.owes}
		p.members = []*member{m, {alive: c.other, removed: c.removed}}
		if got := p.isSilent(m, now); got != c.silent {
			t.Errorf("%s: silent is %t, want %t", c.what, got, c.silent)
		}
	}
}

// TestHeard: what a connection has sent counts, and that it was opened does not.
func TestHeard(t *testing.T) {
	t.Parallel()
	near, far := pair(t)
	m := &member{links: map[*link]struct{}{{client: near, backend: near}: {}}}
	if m.isHeard() {
		t.Error("a connection on which nothing was sent is heard of")
	}
	if _, err := far.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what was sent is heard", m.isHeard)
}

func TestPingURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   Backend
		want string
	}{
		{Backend{Address: "10.0.0.1:6443"}, "https://10.0.0.1:6443/livez/ping"},
		{Backend{Address: "10.0.0.1:2379", Probe: "http://10.0.0.1:2381/readyz"}, "http://10.0.0.1:2381/livez/ping"},
	} {
		if got := pingURL(c.of); got != c.want {
			t.Errorf("%+v is pinged at %s, want %s", c.of, got, c.want)
		}
	}
}
