package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/quorate/quorate/internal/core/plan"
)

// TestSilentMemberIsWaitedForOnce for as long as a member may take, and then briefly, until it answers again.
func TestSilentMemberIsWaitedForOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := &pipeMember{name: "cp-1", id: 1}, &pipeMember{name: "cp-2", id: 2, takes: time.Hour}
		c := Open(serve(t, w, s))
		defer c.Close()
		steps := []struct {
			what  string
			takes time.Duration // of cp-2's answers, from now on
			pause time.Duration // before the survey
			want  time.Duration // which the survey takes
			is    plan.Health
		}{
			{"the first time it is waited for", time.Hour, 0, patience, plan.Unhealthy},
			{"then briefly", time.Hour, 0, briefly, plan.Unhealthy},
			{"not at all while it has not answered that", time.Hour, 0, 0, plan.Unhealthy},
			{"briefly, once that has ended", time.Hour, patience, briefly, plan.Unhealthy},
			{"one that is slow is silent for one survey more", time.Second, patience, briefly, plan.Unhealthy},
			{"and is waited for again", time.Second, patience, time.Second, plan.Healthy},
			{"as one that is well is", 0, 0, 0, plan.Healthy},
			{"and the first time that it is silent again", time.Hour, 0, patience, plan.Unhealthy},
			{"one that is well at once is believed at once", 0, 0, 0, plan.Healthy},
		}
		for _, step := range steps {
			s.takes = step.takes
			time.Sleep(step.pause)
			begun := time.Now()
			survey := c.Survey(t.Context(), []Target{w.target(), s.target()})
			if took := time.Since(begun); took != step.want {
				t.Errorf("%s: the survey took %s, want %s", step.what, took, step.want)
			}
			if len(survey.Members) != 2 || survey.Members[0].Health != plan.Healthy || survey.Members[1].Health != step.is {
				t.Errorf("%s: got %+v", step.what, survey)
			}
		}
	})
}

// TestSilenceIsForgotten with the connections: nothing is asked any more, and nothing is held against anybody.
func TestSilenceIsForgotten(t *testing.T) {
	forget := map[string]func(c *Cluster, well Target){
		"closed":            func(c *Cluster, _ Target) { c.Close() },
		"other credentials": func(c *Cluster, _ Target) { c.Use(c.tls.Clone()) },
		"no target":         func(c *Cluster, well Target) { c.Survey(context.Background(), []Target{well}) },
	}
	for name, forget := range forget {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, s := &pipeMember{name: "cp-1", id: 1}, &pipeMember{name: "cp-2", id: 2, takes: time.Hour}
				c := Open(serve(t, w, s))
				defer c.Close()
				both := []Target{w.target(), s.target()}
				c.Survey(t.Context(), both)
				c.Survey(t.Context(), both)
				dials := s.dials
				forget(c, w.target())
				time.Sleep(time.Minute)
				if s.dials != dials {
					t.Errorf("%d connections more", s.dials-dials)
				}
				begun := time.Now()
				c.Survey(t.Context(), both)
				if took := time.Since(begun); took != patience {
					t.Errorf("the next survey took %s, want %s", took, patience)
				}
			})
		})
	}
}

// pipeMember is a member of two that answers over pipes, after some time.
type pipeMember struct {
	pb.UnimplementedMaintenanceServer
	pb.UnimplementedClusterServer
	name  string
	id    uint64
	takes time.Duration
	conns chan net.Conn
	end   sync.Once
	dials int
}

func (m *pipeMember) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	select {
	case <-time.After(m.takes):
		return &pb.StatusResponse{Header: &pb.ResponseHeader{ClusterId: 1, MemberId: m.id}, Leader: 1, RaftTerm: 1}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (m *pipeMember) MemberList(context.Context, *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	return &pb.MemberListResponse{Members: []*pb.Member{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}}}, nil
}

func (m *pipeMember) target() Target {
	return Target{Name: m.name, Dial: func(context.Context) (net.Conn, error) {
		ours, theirs := net.Pipe()
		m.conns <- theirs
		m.dials++
		return ours, nil
	}}
}

// Accept, Close and Addr make it the listener of its own server.
func (m *pipeMember) Accept() (net.Conn, error) {
	if conn, ok := <-m.conns; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (m *pipeMember) Close() error   { m.end.Do(func() { close(m.conns) }); return nil }
func (m *pipeMember) Addr() net.Addr { return &net.UnixAddr{Name: m.name, Net: "pipe"} }

// serve runs members, and returns credentials for who asks them.
func serve(t *testing.T, members ...*pipeMember) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	self := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"cp-1", "cp-2"}}
	der, err := x509.CreateCertificate(rand.Reader, self, self, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		m.conns = make(chan net.Conn)
		server := grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key})))
		pb.RegisterMaintenanceServer(server, m)
		pb.RegisterClusterServer(server, m)
		done := make(chan struct{})
		go func() { defer close(done); _ = server.Serve(m) }()
		t.Cleanup(func() { server.Stop(); <-done })
	}
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
}

// stuckConn takes nothing any more once it is stuck, as a connection to a host that reads nothing.
type stuckConn struct {
	net.Conn
	stuck *atomic.Bool
	ended chan struct{}
	end   sync.Once
}

func (c *stuckConn) Write(p []byte) (int, error) {
	if c.stuck.Load() {
		<-c.ended
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func (c *stuckConn) Close() error {
	c.end.Do(func() { close(c.ended) })
	return c.Conn.Close()
}

// TestStuckMemberDelaysNobody: gRPC says farewell when it closes a connection, and waits for seconds where the other end reads nothing. No
// lock is held meanwhile, as there are locks over the etcds of all clusters.
func TestStuckMemberDelaysNobody(t *testing.T) {
	for what, end := range map[string]func(c *Cluster, m *member){
		"close":       func(c *Cluster, _ *member) { c.Close() },
		"credentials": func(c *Cluster, _ *member) { c.Use(&tls.Config{MinVersion: tls.VersionTLS12}) },
		"no target":   func(c *Cluster, _ *member) { c.keepOnly(nil) },
		"given up": func(c *Cluster, m *member) {
			go c.drop(m)
			synctest.Wait()
			c.Close()
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stuck atomic.Bool
				server := &pipeMember{name: "cp-1", id: 1}
				c := Open(serve(t, server))
				target := server.target()
				dial := target.Dial
				target.Dial = func(ctx context.Context) (net.Conn, error) {
					conn, err := dial(ctx)
					return &stuckConn{Conn: conn, stuck: &stuck, ended: make(chan struct{})}, err
				}
				if s := c.Survey(t.Context(), []Target{target}); s.Members[0].Health != plan.Healthy {
					t.Fatalf("%+v", s)
				}
				stuck.Store(true)
				begun := time.Now()
				if end(c, c.members["cp-1"]); time.Since(begun) != 0 {
					t.Errorf("it took %s", time.Since(begun))
				}
				if len(c.members) != 0 {
					t.Error("it is kept")
				}
				time.Sleep(time.Minute) // for gRPC to give up
			})
		})
	}
}
