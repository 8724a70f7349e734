package etcd_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
	"github.com/quorate/quorate/internal/core/plan"
)

var three = []string{"cp-1", "cp-2", "cp-3"}

func TestSurveyOfHealthyMembers(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three)
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)

	c.Survey(t.Context(), g.Targets())
	begun := time.Now()
	s := c.Survey(t.Context(), g.Targets())
	t.Logf("a survey of three members over open connections took %s", time.Since(begun))

	leader := g.Leader()
	if !s.Known || !s.Agreed || s.Why != "" || len(s.Members) != 3 {
		t.Fatalf("want three members, known and agreed:\n%s", etcdtest.Show(s))
	}
	for i, m := range s.Members {
		at := slices.IndexFunc(g, func(p *etcdtest.Process) bool { return p.Name == m.Name })
		if at < 0 || m.ID != g[at].ID() || m.Health != plan.Healthy || m.Learner || m.Leader != (g[at] == leader) ||
			!slices.Equal(m.PeerURLs, []string{g[at].Peer}) {
			t.Errorf("member %d is wrong: %+v", i, m)
		}
		if left := time.Until(m.CertificateEnd); left < 30*time.Minute || left > time.Hour {
			t.Errorf("the certificate of %s, which is good for an hour, ends in %s", m.Name, left)
		}
		if i > 0 && s.Members[i-1].ID >= m.ID {
			t.Errorf("members are not sorted by ID")
		}
	}
	for _, p := range g {
		// One of the connections is that of settle, which is closed.
		if p.Dials() < 1 || p.Open() != 1 {
			t.Errorf("%s: want one open connection for two surveys, got %d", p.Name, p.Open())
		}
	}
}

func TestSurveyWithOneDeadMember(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three)
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	c.Survey(t.Context(), g.Targets())

	dead := g.Leader()
	dead.Kill()
	var s etcd.Survey
	etcdtest.Eventually(t, "the others have a leader", func() (string, bool) {
		s = c.Survey(t.Context(), g.Targets())
		return etcdtest.Show(s), s.Agreed
	})
	for _, m := range s.Members {
		want := plan.Healthy
		if m.Name == dead.Name {
			want = plan.Unhealthy
		}
		if m.Health != want {
			t.Errorf("%s is %q, want %q", m.Name, m.Health, want)
		}
	}
	if !strings.Contains(s.Why, dead.Name+": does not answer: ") || !strings.Contains(s.Why, "connection refused") {
		t.Errorf("why does not say who is silent: %q", s.Why)
	}
	begun := time.Now()
	c.Survey(t.Context(), g.Targets())
	if took := time.Since(begun); took > hanging {
		t.Errorf("a refused connection held the survey up for %s", took)
	}

	t.Run("no way to ask is unknown", func(t *testing.T) {
		s := c.Survey(t.Context(), append(g.But(dead).Targets(), etcd.Target{Name: dead.Name}))
		for _, m := range s.Members {
			if m.Name == dead.Name && m.Health != plan.Unknown {
				t.Errorf("%s is %q without a way to ask it", m.Name, m.Health)
			}
		}
		if !s.Agreed || !strings.Contains(s.Why, dead.Name+": there is no way to ask it") {
			t.Errorf("got\n%s", etcdtest.Show(s))
		}
	})
}

// hanging is how long etcd itself lets a call on a member without a leader hang, at
// least. Who gives up after 2 s has answered by then, on a busy host too.
const hanging = 7 * time.Second

func TestHangingMemberIsGivenUp(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three)
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	c.Survey(t.Context(), g.Targets())

	hung := g.But(g.Leader())[0]
	hung.Freeze()

	begun := time.Now()
	s := c.Survey(t.Context(), g.Targets())
	if took := time.Since(begun); took > hanging {
		t.Errorf("the survey took %s", took)
	}
	for _, m := range s.Members {
		if (m.Health == plan.Healthy) != (m.Name != hung.Name) {
			t.Errorf("%s is %q", m.Name, m.Health)
		}
	}
	if !s.Agreed || !strings.Contains(s.Why, "no answer within 2s") {
		t.Errorf("got\n%s", etcdtest.Show(s))
	}
	hung.Thaw()
	etcdtest.Eventually(t, "healthy again", func() (string, bool) {
		s := c.Survey(t.Context(), g.Targets())
		return etcdtest.Show(s), s.Agreed && s.Why == ""
	})
}

func TestLostQuorum(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three)
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	g[0].Kill()
	g[1].Kill()
	var s etcd.Survey
	etcdtest.Eventually(t, "the last one has no leader", func() (string, bool) {
		s = c.Survey(t.Context(), g.Targets())
		return etcdtest.Show(s), strings.Contains(s.Why, "follows no leader")
	})
	if !s.Known || s.Agreed || len(s.Members) != 3 {
		t.Errorf("want the list, and no agreement:\n%s", etcdtest.Show(s))
	}
	for _, m := range s.Members {
		if m.Health != plan.Unhealthy || m.Leader {
			t.Errorf("%s is %q, leader %t", m.Name, m.Health, m.Leader)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	begun := time.Now()
	err := c.RemoveMember(ctx, g.Targets(), s.Members[0].ID)
	if err == nil || time.Since(begun) > 4*time.Second {
		t.Errorf("removal without quorum: %v after %s", err, time.Since(begun))
	}

	g[2].Kill()
	s = c.Survey(t.Context(), g.Targets())
	if s.Known || s.Agreed || len(s.Members) != 0 || !strings.Contains(s.Why, "no member returned its list") {
		t.Errorf("with nobody left:\n%s", etcdtest.Show(s))
	}
}

func TestMoveLeader(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three)
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	for range 2 { // there, and there again from where it is now
		next := g.But(g.Leader())[0]
		begun := time.Now()
		etcdtest.Must(t, c.MoveLeader(t.Context(), g.Targets(), next.ID()))
		t.Logf("moving took %s", time.Since(begun))
		if s := next.Status(); s.Leader != s.Header.MemberId {
			t.Fatalf("the leader is %x, want %x", s.Leader, s.Header.MemberId)
		}
	}
	etcdtest.Must(t, c.MoveLeader(t.Context(), g.Targets(), g.Leader().ID()))

	begun := time.Now()
	if err := c.MoveLeader(t.Context(), g.Targets(), 42); err == nil || time.Since(begun) > time.Second {
		t.Errorf("a lead that nobody can take: %v after %s", err, time.Since(begun))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	followers := g.But(g.Leader())
	if err := c.MoveLeader(ctx, followers.Targets(), followers[0].ID()); err == nil || !strings.Contains(err.Error(), "cannot be reached") {
		t.Errorf("without a way to the leader: %v", err)
	}
}

func TestRemoveMember(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three)
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	gone := g.Leader()
	id := gone.ID()
	for range 2 { // what is gone can be removed again
		etcdtest.Must(t, c.RemoveMember(t.Context(), g.Targets(), id))
	}
	rest := g.But(gone)
	etcdtest.Eventually(t, "two members, and a leader", func() (string, bool) {
		s := c.Survey(t.Context(), rest.Targets())
		return etcdtest.Show(s), s.Agreed && s.Why == "" && len(s.Members) == 2
	})
	if n := gone.Open(); n != 0 {
		t.Errorf("%d connections to a member that is no target any more", n)
	}
}

func TestLearner(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, []string{"cp-1"})
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	learner := etcdtest.NewProcess(t, ca, "cp-2")
	added, err := pb.NewClusterClient(g[0].Connect()).MemberAdd(t.Context(), &pb.MemberAddRequest{PeerURLs: []string{learner.Peer},
		IsLearner: true})
	etcdtest.Must(t, err)
	both := append(slices.Clone(g), learner)

	s := c.Survey(t.Context(), g.Targets())
	at := slices.IndexFunc(s.Members, func(m etcd.Member) bool { return m.ID == added.Member.ID })
	if at < 0 || s.Members[at].Name != "" || !s.Members[at].Learner || s.Members[at].Health != plan.Unknown || !s.Agreed {
		t.Fatalf("before its start:\n%s", etcdtest.Show(s))
	}

	learner.Start("existing", both.Initial())
	etcdtest.Eventually(t, "the learner is healthy", func() (string, bool) {
		s = c.Survey(t.Context(), both.Targets())
		return etcdtest.Show(s), s.Agreed && s.Why == ""
	})
	if m := s.Members[at]; !m.Learner || m.Name != "cp-2" || m.Leader || m.Health != plan.Healthy {
		t.Errorf("got\n%s", etcdtest.Show(s))
	}
	if err := c.MoveLeader(t.Context(), both.Targets(), learner.ID()); err == nil {
		t.Error("a learner cannot lead, and no error said so")
	}
	etcdtest.Eventually(t, "the learner has caught up", func() (string, bool) {
		s = c.Survey(t.Context(), both.Targets())
		return etcdtest.Show(s), s.Members[at].InSync
	})
	for range 2 { // what votes already is no error
		etcdtest.Must(t, c.Promote(t.Context(), both.Targets(), learner.ID()))
	}
	etcdtest.Eventually(t, "two voters", func() (string, bool) {
		s = c.Survey(t.Context(), both.Targets())
		return etcdtest.Show(s), s.Agreed && s.Why == "" && !s.Members[at].Learner && !s.Members[at].InSync
	})
	begun := time.Now()
	if err := c.Promote(t.Context(), both.Targets(), 42); err == nil || time.Since(begun) > time.Second {
		t.Errorf("a member that nobody knows: %v after %s", err, time.Since(begun))
	}
	etcdtest.Must(t, c.RemoveMember(t.Context(), both.Targets(), added.Member.ID))
}

func TestWrongServerNameIsRefused(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, []string{"cp-1"})
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	impostor := g[0].Target()
	impostor.Name = "cp-2"
	s := c.Survey(t.Context(), []etcd.Target{impostor})
	if s.Known || !strings.Contains(s.Why, "cp-2 does not answer") || !strings.Contains(s.Why, "certificate is valid for cp-1") {
		t.Errorf("one member was taken for another:\n%s", etcdtest.Show(s))
	}

	t.Run("its pod's name counts for it", func(t *testing.T) {
		pod := impostor
		pod.Alias = "cp-1"
		if s := c.Survey(t.Context(), []etcd.Target{pod}); !s.Known {
			t.Errorf("got\n%s", etcdtest.Show(s))
		}
	})

	t.Run("but not where another member is called so", func(t *testing.T) {
		again := etcd.Open(ca.Client())
		t.Cleanup(again.Close)
		pod, other := impostor, g[0].Target()
		pod.Alias, other.Dial = "cp-1", nil
		if s := again.Survey(t.Context(), []etcd.Target{pod, other}); s.Known || !strings.Contains(s.Why, "certificate is valid for cp-1") {
			t.Errorf("one member was taken for another:\n%s", etcdtest.Show(s))
		}
	})

	t.Run("and so is a foreign authority", func(t *testing.T) {
		c.Use(etcdtest.NewAuthority(t).Client())
		if s := c.Survey(t.Context(), g.Targets()); s.Known || !strings.Contains(s.Why, "certificate") {
			t.Errorf("got\n%s", etcdtest.Show(s))
		}
	})
}

// TestCertificateNotYetValid is the accident cluster-api #4304: a controller whose clock is
// ahead makes itself a certificate, and every member refuses it.
func TestCertificateNotYetValid(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three)
	c := etcd.Open(ca.ClientFrom(time.Now().Add(10 * time.Minute)))
	t.Cleanup(c.Close)
	s := c.Survey(t.Context(), g.Targets())
	if s.Known || s.Agreed || len(s.Members) > 0 {
		t.Errorf("something is known of members that refused to say anything:\n%s", etcdtest.Show(s))
	}
	for _, name := range three {
		if want := name + " does not answer: it refuses our certificate: expired, or not yet valid by its clock"; !strings.Contains(s.Why, want) {
			t.Errorf("want %q in %q", want, s.Why)
		}
	}
	if err := c.RemoveMember(shortly(t), g.Targets(), g[0].ID()); err == nil || !strings.Contains(err.Error(), "not yet valid") {
		t.Errorf("removal by who is refused: %v", err)
	}

	c.Use(ca.ClientFrom(time.Now().Add(-5 * time.Minute)))
	if s := c.Survey(t.Context(), g.Targets()); !s.Agreed || s.Why != "" {
		t.Errorf("with a certificate that is valid since 5 minutes:\n%s", etcdtest.Show(s))
	}
}

func shortly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestAlarm(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three, "--quota-backend-bytes", "2000000")
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	full := g.But(g.Leader())[0]
	kv := pb.NewKVClient(full.Connect())
	var err error
	for i := 0; err == nil && i < 100; i++ {
		_, err = kv.Put(t.Context(), &pb.PutRequest{Key: []byte{byte(i)}, Value: make([]byte, 200_000)})
	}
	if err == nil || !strings.Contains(err.Error(), "space exceeded") {
		t.Fatalf("the quota was not reached: %v", err)
	}
	etcdtest.Eventually(t, "the alarm is told", func() (string, bool) {
		s := c.Survey(t.Context(), g.Targets())
		told := 0
		for _, m := range s.Members {
			if slices.Equal(m.Alarms, []string{"NOSPACE"}) && m.Health == plan.Healthy {
				told++
			}
			if m.Size < 1_000_000 || m.Quota != 2_000_000 {
				return etcdtest.Show(s) + fmt.Sprintf("\n%s has %d of %d bytes", m.Name, m.Size, m.Quota), false
			}
		}
		return etcdtest.Show(s), told > 0 && s.Agreed && strings.Contains(s.Why, "raised the alarm NOSPACE")
	})
}

func TestTwoClustersDoNotAgree(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	one, other := etcdtest.Run(t, ca, []string{"cp-1"}), etcdtest.Run(t, ca, []string{"cp-2"})
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	s := c.Survey(t.Context(), append(one, other...).Targets())
	if s.Agreed || !strings.Contains(s.Why, "belongs to another etcd cluster") {
		t.Errorf("got\n%s", etcdtest.Show(s))
	}
}

func TestConnectionsAreClosed(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, []string{"cp-1"})
	for name, end := range map[string]func(*etcd.Cluster){
		"Close":                            (*etcd.Cluster).Close,
		"Use with other credentials":       func(c *etcd.Cluster) { c.Use(ca.Client()) },
		"a survey without the member":      func(c *etcd.Cluster) { c.Survey(t.Context(), nil) },
		"a survey with no way to a member": func(c *etcd.Cluster) { c.Survey(t.Context(), []etcd.Target{{Name: "cp-1"}}) },
	} {
		t.Run(name, func(t *testing.T) {
			c := etcd.Open(ca.Client())
			t.Cleanup(c.Close)
			c.Survey(t.Context(), g.Targets())
			if n := g[0].Open(); n != 1 {
				t.Fatalf("%d connections are open, want 1", n)
			}
			end(c)
			etcdtest.Eventually(t, "closed", func() (string, bool) { return "still open", g[0].Open() == 0 })
			if s := c.Survey(t.Context(), g.Targets()); !s.Agreed {
				t.Errorf("not connected again:\n%s", etcdtest.Show(s))
			}
			c.Close()
			etcdtest.Eventually(t, "closed", func() (string, bool) { return "still open", g[0].Open() == 0 })
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
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, []string{"cp-1"})
	for name, die := range map[string]func(*wire){
		"closed":                     func(w *wire) { etcdtest.Must(t, w.Close()) },
		"cut, as the next call sees": func(w *wire) { w.cut.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			c := etcd.Open(ca.Client())
			t.Cleanup(c.Close)
			var last *wire
			target := etcd.Target{Name: "cp-1", Dial: func(ctx context.Context) (net.Conn, error) {
				conn, err := g[0].Target().Dial(ctx)
				last = &wire{Conn: conn}
				return last, err
			}}
			c.Survey(t.Context(), []etcd.Target{target})
			die(last)
			if s := c.Survey(t.Context(), []etcd.Target{target}); !s.Agreed || s.Why != "" {
				t.Errorf("the member was blamed for its connection:\n%s", etcdtest.Show(s))
			}
		})
	}
}
