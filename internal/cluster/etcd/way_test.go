package etcd

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// brokenWay is what a dialer fails with when it never came as far as the member.
type brokenWay string

func (b brokenWay) Error() string { return string(b) }
func (brokenWay) WayFailed() bool { return true }

// cutConn is a connection of which the way breaks before anything came over it.
type cutConn struct {
	net.Conn
	err error
}

func (c cutConn) Read([]byte) (int, error) { return 0, c.err }

// TestBrokenWayProvesNothing: who was never reached is not known to be ill; who refused or was silent is.
func TestBrokenWayProvesNothing(t *testing.T) {
	const noKubelet = brokenWay("error dialing backend: dial tcp 10.0.0.1:10250: connect: connection refused")
	dials := map[string]struct {
		dial   func(*pipeMember) (net.Conn, error)
		health plan.Health
		why    string
	}{
		"the way is refused": {func(*pipeMember) (net.Conn, error) { return nil, noKubelet },
			plan.Unknown, "cp-2: there was no way to ask it: " + string(noKubelet)},
		"the way breaks": {func(m *pipeMember) (net.Conn, error) {
			conn, err := m.target().Dial(t.Context())
			return cutConn{conn, brokenWay("the tunnel ended")}, err
		}, plan.Unknown, "cp-2: there was no way to ask it: the tunnel ended"},
		"the member refuses": {func(*pipeMember) (net.Conn, error) { return nil, errors.New("connection refused") },
			plan.Unhealthy, "cp-2: does not answer: connection refused"},
		"the member refuses behind an open way": {func(m *pipeMember) (net.Conn, error) {
			conn, err := m.target().Dial(t.Context())
			return cutConn{conn, errors.New("error forwarding port: connection refused")}, err
		}, plan.Unhealthy, "connection refused"},
	}
	for name, test := range dials {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := &pipeMember{name: "cp-1", id: 1}, &pipeMember{name: "cp-2", id: 2}
				c := Open(serve(t, w, s))
				defer c.Close()
				other := Target{Name: s.name, Dial: func(context.Context) (net.Conn, error) { return test.dial(s) }}
				got := c.Survey(t.Context(), []Target{w.target(), other})
				if len(got.Members) != 2 || got.Members[1].Health != test.health || !strings.Contains(got.Why, test.why) {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
}

// TestSilentWayProvesNothing: a way that does not open tells as little in the surveys that wait for it briefly. Once it
// opens, silence is the member's own.
func TestSilentWayProvesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := &pipeMember{name: "cp-1", id: 1}, &pipeMember{name: "cp-2", id: 2, takes: time.Hour}
		c := Open(serve(t, w, s))
		defer c.Close()
		opens := false
		other := Target{Name: s.name, Dial: func(ctx context.Context) (net.Conn, error) {
			if opens {
				return s.target().Dial(ctx)
			}
			<-ctx.Done()
			return nil, brokenWay("no answer from the kubelet")
		}}
		for i, want := range []plan.Health{plan.Unknown, plan.Unknown, plan.Unknown, plan.Unhealthy} {
			got := c.Survey(t.Context(), []Target{w.target(), other})
			if len(got.Members) != 2 || got.Members[1].Health != want {
				t.Errorf("survey %d: got %+v", i, got)
			}
			opens = i > 0
			time.Sleep(patience)
		}
	})
}

// relayed is a connection on which silence tells nothing, because somebody between may have stopped.
type relayed struct{ net.Conn }

func (relayed) Relayed() bool { return true }

// TestOldRelaySilence: silence on a relayed connection that was opened before the question proves nothing; on
// one that was opened for it, it is the member's own.
func TestOldRelaySilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := &pipeMember{name: "cp-1", id: 1}, &pipeMember{name: "cp-2", id: 2}
		c := Open(serve(t, w, s))
		defer c.Close()
		other := Target{Name: s.name, Dial: func(ctx context.Context) (net.Conn, error) {
			conn, err := s.target().Dial(ctx)
			return relayed{conn}, err
		}}
		for i, want := range []plan.Health{plan.Healthy, plan.Unknown, plan.Unknown, plan.Unhealthy} {
			got := c.Survey(t.Context(), []Target{w.target(), other})
			if len(got.Members) != 2 || got.Members[1].Health != want {
				t.Errorf("survey %d: got %+v", i, got)
			}
			s.takes = time.Hour
			time.Sleep(patience)
		}
	})
}
