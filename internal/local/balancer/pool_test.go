package balancer

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// world makes a pool from words like "a:healthy", "b:failing,draining", "c:unhealthy,removed", each with one open connection.
func world(t *testing.T, backends ...string) *pool {
	t.Helper()
	p := newPool()
	for _, w := range backends {
		name, facts, _ := strings.Cut(w, ":")
		m := &member{Backend: Backend{Name: name}, health: Unknown, links: map[*link]struct{}{}, wake: make(chan struct{}, 1), stop: func() {}}
		for _, f := range strings.Split(facts, ",") {
			switch f {
			case "healthy":
				m.health = Healthy
			case "failing":
				m.health = Failing
			case "unhealthy":
				m.health = Unhealthy
			case "draining":
				m.Draining = true
			case "removed":
				m.removed = true
			case "unknown":
			default:
				t.Fatalf("unknown fact %q", f)
			}
		}
		m.links[connected(t)] = struct{}{}
		p.members = append(p.members, m)
	}
	return p
}

// connected is a connection on which something was just sent.
func connected(t *testing.T) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &link{client: c.(*net.TCPConn), backend: c.(*net.TCPConn)}
}

func TestCandidates(t *testing.T) {
	for _, test := range []struct{ name, backends, want string }{
		{"healthy before all others", "a:unhealthy b:unknown c:failing d:healthy", "d b c a"},
		{"draining after healthy", "a:healthy,draining b:healthy", "b a"},
		{"draining before those that may be dead", "a:failing b:healthy,draining c:unhealthy", "b a c"},
		{"a removed one never", "a:healthy,removed b:unhealthy", "b"},
		{"none", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, m := range world(t, strings.Fields(test.backends)...).candidates() {
				got = append(got, m.Name)
			}
			if s := strings.Join(got, " "); s != test.want {
				t.Errorf("candidates %q, want %q", s, test.want)
			}
		})
	}
}

// Which connections go, given that all of them are in use: at once, when the grace is over, or never.
func TestWhichConnectionsGo(t *testing.T) {
	for _, test := range []struct{ name, backends, now, late string }{
		{"all well", "a:healthy b:healthy", "", ""},
		{"failing is not dead yet", "a:failing b:healthy", "", ""},
		{"dead, with another", "a:unhealthy b:healthy", "a", "a"},
		{"dead, without another", "a:unhealthy b:failing", "", ""},
		{"dead, the other drains", "a:unhealthy b:healthy,draining", "", ""},
		{"draining, with another", "a:healthy,draining b:healthy", "", "a"},
		{"draining, the other fails", "a:healthy,draining b:failing", "", ""},
		{"all drain", "a:healthy,draining b:healthy,draining", "", ""},
		{"removed in health", "a:healthy,removed b:healthy", "", "a"},
		{"removed and no other", "a:healthy,removed", "", "a"},
		{"removed and not healthy", "a:failing,removed b:unhealthy", "a", "a"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := world(t, strings.Fields(test.backends)...)
			now := time.Now()
			if got := names(p, p.sweep(now)); got != test.now {
				t.Errorf("at once %q, want %q", got, test.now)
			}
			if got := names(p, p.sweep(now.Add(DrainGrace))); got != test.late {
				t.Errorf("after the grace %q, want %q", got, test.late)
			}
		})
	}
}

func names(p *pool, doomed []*link) string {
	var of []string
	for _, m := range p.members {
		for l := range m.links {
			if slices.Contains(doomed, l) {
				of = append(of, m.Name)
			}
		}
	}
	return strings.Join(of, " ")
}

// The grace counts from when there is somewhere to go.
func TestTheGraceBeginsAnew(t *testing.T) {
	p := world(t, "a:healthy,draining", "b:healthy")
	now := time.Now()
	p.sweep(now)
	p.members[1].health = Failing
	p.sweep(now.Add(2 * time.Second))
	p.members[1].health = Healthy
	p.sweep(now.Add(3 * time.Second))
	if got := names(p, p.sweep(now.Add(DrainGrace+time.Second))); got != "" {
		t.Errorf("connections of %q go %s after there was somewhere to go", got, DrainGrace-2*time.Second)
	}
	if got := names(p, p.sweep(now.Add(DrainGrace+3*time.Second))); got != "a" {
		t.Errorf("connections of %q go after the grace, want a", got)
	}
}

func TestHealth(t *testing.T) {
	bad, refused := errors.New("it answers 500"), fmt.Errorf("connecting: %w", syscall.ECONNREFUSED)
	for _, test := range []struct {
		name   string
		probes []error
		want   Health
	}{
		{"one success", []error{nil}, Healthy},
		{"one failure", []error{nil, bad}, Failing},
		{"two failures", []error{nil, bad, bad}, Failing},
		{"three failures", []error{nil, bad, bad, bad}, Unhealthy},
		{"failures with a success between", []error{bad, bad, nil, bad, bad}, Failing},
		{"nobody listens", []error{nil, refused}, Unhealthy},
		{"back", []error{bad, bad, bad, bad, nil}, Healthy},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := world(t, "a:unknown")
			for _, err := range test.probes {
				p.observe(p.members[0], err)
			}
			if got := p.members[0]; got.health != test.want || (got.why == "") != (test.want == Healthy) {
				t.Errorf("health %s because %q, want %s", got.health, got.why, test.want)
			}
		})
	}
}

func TestDrained(t *testing.T) {
	healthy := BackendStatus{Name: "b", Health: Healthy}
	for _, test := range []struct {
		name     string
		backends []BackendStatus
		want     bool
	}{
		{"not there", []BackendStatus{healthy}, true},
		{"not draining yet", []BackendStatus{{Name: "a"}, healthy}, false},
		{"draining with connections", []BackendStatus{{Name: "a", Draining: true, Connections: 1}, healthy}, false},
		{"draining without", []BackendStatus{{Name: "a", Draining: true}, healthy}, true},
		{"removed with connections", []BackendStatus{{Name: "a", Removed: true, Connections: 1}, healthy}, false},
		{"no other is healthy", []BackendStatus{{Name: "a", Draining: true, Connections: 1}, {Name: "b", Health: Failing}}, true},
		{"the other drains", []BackendStatus{{Name: "a", Draining: true, Connections: 1}, {Name: "b", Health: Healthy, Draining: true}}, true},
		{"no other, not draining yet", []BackendStatus{{Name: "a"}}, false},
	} {
		if got := (Status{Backends: test.backends}).Drained("a"); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
