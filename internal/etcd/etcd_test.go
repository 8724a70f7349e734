package etcd_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/etcd"
	"github.com/quorate/quorate/internal/plan"
)

var three = []string{"cp-1", "cp-2", "cp-3"}

func TestSurveyOfHealthyMembers(t *testing.T) {
	ca := newAuthority(t)
	g := run(t, ca, three)
	c := etcd.Open(ca.client(t))
	t.Cleanup(c.Close)

	c.Survey(t.Context(), g.targets())
	begun := time.Now()
	s := c.Survey(t.Context(), g.targets())
	t.Logf("a survey of three members over open connections took %s", time.Since(begun))

	leader := g.leader()
	if !s.Known || !s.Agreed || s.Why != "" || len(s.Members) != 3 {
		t.Fatalf("want three members, known and agreed:\n%s", show(s))
	}
	for i, m := range s.Members {
		at := slices.IndexFunc(g, func(p *process) bool { return p.name == m.Name })
		if at < 0 || m.ID != g[at].id() || m.Health != plan.Healthy || m.Learner || m.Leader != (g[at] == leader) || !slices.Equal(m.PeerURLs, []string{g[at].peer}) {
			t.Errorf("member %d is wrong: %+v", i, m)
		}
		if i > 0 && s.Members[i-1].ID >= m.ID {
			t.Errorf("members are not sorted by ID")
		}
	}
	for _, p := range g {
		// One of the connections is that of settle, which is closed.
		if p.dials.Load() < 1 || p.open.Load() != 1 {
			t.Errorf("%s: want one open connection for two surveys, got %d", p.name, p.open.Load())
		}
	}
}

func TestSurveyWithOneDeadMember(t *testing.T) {
	ca := newAuthority(t)
	g := run(t, ca, three)
	c := etcd.Open(ca.client(t))
	t.Cleanup(c.Close)
	c.Survey(t.Context(), g.targets())

	dead := g.leader()
	dead.kill()
	var s etcd.Survey
	eventually(t, "the others have a leader", func() (string, bool) {
		s = c.Survey(t.Context(), g.targets())
		return show(s), s.Agreed
	})
	for _, m := range s.Members {
		want := plan.Healthy
		if m.Name == dead.name {
			want = plan.Unhealthy
		}
		if m.Health != want {
			t.Errorf("%s is %q, want %q", m.Name, m.Health, want)
		}
	}
	if !strings.Contains(s.Why, dead.name+": does not answer: ") || !strings.Contains(s.Why, "connection refused") {
		t.Errorf("why does not say who is silent: %q", s.Why)
	}
	begun := time.Now()
	c.Survey(t.Context(), g.targets())
	if took := time.Since(begun); took > hanging {
		t.Errorf("a refused connection held the survey up for %s", took)
	}

	t.Run("no way to ask is unknown", func(t *testing.T) {
		s := c.Survey(t.Context(), append(g.but(dead).targets(), etcd.Target{Name: dead.name}))
		for _, m := range s.Members {
			if m.Name == dead.name && m.Health != plan.Unknown {
				t.Errorf("%s is %q without a way to ask it", m.Name, m.Health)
			}
		}
		if !s.Agreed || !strings.Contains(s.Why, dead.name+": there is no way to ask it") {
			t.Errorf("got\n%s", show(s))
		}
	})
}

// hanging is how long etcd itself lets a call on a member without a leader hang, at
// least. Who gives up after 2 s has answered by then, on a busy host too.
const hanging = 7 * time.Second

func TestHangingMemberIsGivenUp(t *testing.T) {
	ca := newAuthority(t)
	g := run(t, ca, three)
	c := etcd.Open(ca.client(t))
	t.Cleanup(c.Close)
	c.Survey(t.Context(), g.targets())

	hung := g.but(g.leader())[0]
	hung.freeze()
	t.Cleanup(func() { hung.signal(syscall.SIGCONT) })
	begun := time.Now()
	s := c.Survey(t.Context(), g.targets())
	if took := time.Since(begun); took > hanging {
		t.Errorf("the survey took %s", took)
	}
	for _, m := range s.Members {
		if (m.Health == plan.Healthy) != (m.Name != hung.name) {
			t.Errorf("%s is %q", m.Name, m.Health)
		}
	}
	if !s.Agreed || !strings.Contains(s.Why, "no answer within 2s") {
		t.Errorf("got\n%s", show(s))
	}
	hung.signal(syscall.SIGCONT)
	eventually(t, "healthy again", func() (string, bool) {
		s := c.Survey(t.Context(), g.targets())
		return show(s), s.Agreed && s.Why == ""
	})
}

func TestLostQuorum(t *testing.T) {
	ca := newAuthority(t)
	g := run(t, ca, three)
	c := etcd.Open(ca.client(t))
	t.Cleanup(c.Close)
	g[0].kill()
	g[1].kill()
	var s etcd.Survey
	eventually(t, "the last one has no leader", func() (string, bool) {
		s = c.Survey(t.Context(), g.targets())
		return show(s), strings.Contains(s.Why, "follows no leader")
	})
	if !s.Known || s.Agreed || len(s.Members) != 3 {
		t.Errorf("want the list, and no agreement:\n%s", show(s))
	}
	for _, m := range s.Members {
		if m.Health != plan.Unhealthy || m.Leader {
			t.Errorf("%s is %q, leader %t", m.Name, m.Health, m.Leader)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	begun := time.Now()
	err := c.RemoveMember(ctx, g.targets(), s.Members[0].ID)
	if err == nil || time.Since(begun) > 4*time.Second {
		t.Errorf("removal without quorum: %v after %s", err, time.Since(begun))
	}

	g[2].kill()
	s = c.Survey(t.Context(), g.targets())
	if s.Known || s.Agreed || len(s.Members) != 0 || !strings.Contains(s.Why, "no member told its list") {
		t.Errorf("with nobody left:\n%s", show(s))
	}
}

func TestMoveLeader(t *testing.T) {
	ca := newAuthority(t)
	g := run(t, ca, three)
	c := etcd.Open(ca.client(t))
	t.Cleanup(c.Close)
	for range 2 { // there, and there again from where it is now
		next := g.but(g.leader())[0]
		begun := time.Now()
		must(t, c.MoveLeader(t.Context(), g.targets(), next.id()))
		t.Logf("moving took %s", time.Since(begun))
		if s := next.status(); s.Leader != s.Header.MemberId {
			t.Fatalf("the leader is %x, want %x", s.Leader, s.Header.MemberId)
		}
	}
	must(t, c.MoveLeader(t.Context(), g.targets(), g.leader().id()))

	begun := time.Now()
	if err := c.MoveLeader(t.Context(), g.targets(), 42); err == nil || time.Since(begun) > time.Second {
		t.Errorf("a lead that nobody can take: %v after %s", err, time.Since(begun))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	followers := g.but(g.leader())
	if err := c.MoveLeader(ctx, followers.targets(), followers[0].id()); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("without a way to the leader: %v", err)
	}
}

func TestRemoveMember(t *testing.T) {
	ca := newAuthority(t)
	g := run(t, ca, three)
	c := etcd.Open(ca.client(t))
	t.Cleanup(c.Close)
	gone := g.leader()
	id := gone.id()
	for range 2 { // what is gone can be removed again
		must(t, c.RemoveMember(t.Context(), g.targets(), id))
	}
	rest := g.but(gone)
	eventually(t, "two members, and a leader", func() (string, bool) {
		s := c.Survey(t.Context(), rest.targets())
		return show(s), s.Agreed && s.Why == "" && len(s.Members) == 2
	})
	if n := gone.open.Load(); n != 0 {
		t.Errorf("%d connections to a member that is no target any more", n)
	}
}

func TestLearner(t *testing.T) {
	ca := newAuthority(t)
	g := run(t, ca, []string{"cp-1"})
	c := etcd.Open(ca.client(t))
	t.Cleanup(c.Close)
	learner := newProcess(t, ca, "cp-2")
	added, err := pb.NewClusterClient(g[0].connect()).MemberAdd(t.Context(), &pb.MemberAddRequest{PeerURLs: []string{learner.peer}, IsLearner: true})
	must(t, err)
	both := append(slices.Clone(g), learner)

	s := c.Survey(t.Context(), g.targets())
	at := slices.IndexFunc(s.Members, func(m etcd.Member) bool { return m.ID == added.Member.ID })
	if at < 0 || s.Members[at].Name != "" || !s.Members[at].Learner || s.Members[at].Health != plan.Unknown || !s.Agreed {
		t.Fatalf("before its start:\n%s", show(s))
	}

	learner.start("existing", both.initial())
	eventually(t, "the learner is healthy", func() (string, bool) {
		s = c.Survey(t.Context(), both.targets())
		return show(s), s.Agreed && s.Why == ""
	})
	if m := s.Members[at]; !m.Learner || m.Name != "cp-2" || m.Leader || m.Health != plan.Healthy {
		t.Errorf("got\n%s", show(s))
	}
	if err := c.MoveLeader(t.Context(), both.targets(), learner.id()); err == nil {
		t.Error("a learner cannot lead, and no error said so")
	}
	must(t, c.RemoveMember(t.Context(), both.targets(), added.Member.ID))
}

func TestWrongServerNameIsRefused(t *testing.T) {
	ca := newAuthority(t)
	g := run(t, ca, []string{"cp-1"})
	c := etcd.Open(ca.client(t))
	t.Cleanup(c.Close)
	impostor := g[0].target()
	impostor.Name = "cp-2"
	s := c.Survey(t.Context(), []etcd.Target{impostor})
	if s.Known || !strings.Contains(s.Why, "cp-2 does not answer") || !strings.Contains(s.Why, "certificate is valid for cp-1") {
		t.Errorf("one member was taken for another:\n%s", show(s))
	}

	t.Run("and so is a foreign authority", func(t *testing.T) {
		c.Use(newAuthority(t).client(t))
		if s := c.Survey(t.Context(), g.targets()); s.Known || !strings.Contains(s.Why, "certificate") {
			t.Errorf("got\n%s", show(s))
		}
	})
}

func TestAlarm(t *testing.T) {
	ca := newAuthority(t)
	g := run(t, ca, three, "--quota-backend-bytes", "2000000")
	c := etcd.Open(ca.client(t))
	t.Cleanup(c.Close)
	full := g.but(g.leader())[0]
	kv := pb.NewKVClient(full.connect())
	var err error
	for i := 0; err == nil && i < 100; i++ {
		_, err = kv.Put(t.Context(), &pb.PutRequest{Key: []byte{byte(i)}, Value: make([]byte, 200_000)})
	}
	if err == nil || !strings.Contains(err.Error(), "space exceeded") {
		t.Fatalf("the quota was not reached: %v", err)
	}
	eventually(t, "the alarm is told", func() (string, bool) {
		s := c.Survey(t.Context(), g.targets())
		told := 0
		for _, m := range s.Members {
			if slices.Equal(m.Alarms, []string{"NOSPACE"}) && m.Health == plan.Healthy {
				told++
			}
		}
		return show(s), told > 0 && s.Agreed && strings.Contains(s.Why, "raised the alarm NOSPACE")
	})
}

func TestTwoClustersDoNotAgree(t *testing.T) {
	ca := newAuthority(t)
	one, other := run(t, ca, []string{"cp-1"}), run(t, ca, []string{"cp-2"})
	c := etcd.Open(ca.client(t))
	t.Cleanup(c.Close)
	s := c.Survey(t.Context(), append(one, other...).targets())
	if s.Agreed || !strings.Contains(s.Why, "belongs to another etcd cluster") {
		t.Errorf("got\n%s", show(s))
	}
}

func TestConnectionsAreClosed(t *testing.T) {
	ca := newAuthority(t)
	g := run(t, ca, []string{"cp-1"})
	for name, end := range map[string]func(*etcd.Cluster){
		"Close":                            (*etcd.Cluster).Close,
		"Use with other credentials":       func(c *etcd.Cluster) { c.Use(ca.client(t)) },
		"a survey without the member":      func(c *etcd.Cluster) { c.Survey(t.Context(), nil) },
		"a survey with no way to a member": func(c *etcd.Cluster) { c.Survey(t.Context(), []etcd.Target{{Name: "cp-1"}}) },
	} {
		t.Run(name, func(t *testing.T) {
			c := etcd.Open(ca.client(t))
			t.Cleanup(c.Close)
			c.Survey(t.Context(), g.targets())
			if n := g[0].open.Load(); n != 1 {
				t.Fatalf("%d connections are open, want 1", n)
			}
			end(c)
			eventually(t, "closed", func() (string, bool) { return "still open", g[0].open.Load() == 0 })
			if s := c.Survey(t.Context(), g.targets()); !s.Agreed {
				t.Errorf("not connected again:\n%s", show(s))
			}
			c.Close()
			eventually(t, "closed", func() (string, bool) { return "still open", g[0].open.Load() == 0 })
		})
	}
}

// wire is a connection that can be cut without anybody noticing before the next word.
type wire struct {
	net.Conn
	cut atomic.Bool
}

func (w *wire) Write(p []byte) (int, error) {
	if w.cut.Load() {
		_ = w.Close() // the other end answers that it knows nothing of it
		return 0, syscall.EPIPE
	}
	return w.Conn.Write(p)
}

func TestConnectionThatDiedUnnoticed(t *testing.T) {
	ca := newAuthority(t)
	g := run(t, ca, []string{"cp-1"})
	for name, die := range map[string]func(*wire){
		"closed":                     func(w *wire) { must(t, w.Close()) },
		"cut, as the next call sees": func(w *wire) { w.cut.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			c := etcd.Open(ca.client(t))
			t.Cleanup(c.Close)
			var last *wire
			target := etcd.Target{Name: "cp-1", Dial: func(ctx context.Context) (net.Conn, error) {
				conn, err := g[0].target().Dial(ctx)
				last = &wire{Conn: conn}
				return last, err
			}}
			c.Survey(t.Context(), []etcd.Target{target})
			die(last)
			if s := c.Survey(t.Context(), []etcd.Target{target}); !s.Agreed || s.Why != "" {
				t.Errorf("the member was blamed for its connection:\n%s", show(s))
			}
		})
	}
}
