package etcd_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// TestGlance: each member tells by itself that what a survey found stands, and no longer does once a member was added, an alarm is active,
// another leads, or the member does not answer. It opens the one connection, and uses it again.
func TestGlance(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three)
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	survey := func() etcd.Survey {
		s := c.Survey(t.Context(), g.Targets())
		if !s.Agreed || s.Why != "" {
			t.Fatal(etcdtest.Show(s))
		}
		return s
	}
	glances := func(what string, over etcd.Survey, want bool, at ...*etcdtest.Process) {
		t.Helper()
		for _, p := range at {
			if got := c.Glance(t.Context(), p.Target(), over); got != want {
				t.Errorf("%s: a glance at %s says %t, want %t", what, p.Name, got, want)
			}
		}
	}
	whole := survey()
	c.Close()
	for _, p := range g {
		etcdtest.Eventually(t, "connections are closed", func() (string, bool) { return p.Name, p.Open() == 0 })
	}
	glances("all is as it was", whole, true, g...)
	glances("all is as it was", whole, true, g[0])
	for _, p := range g {
		if p.Open() != 1 {
			t.Errorf("%s: %d connections are open after its glances", p.Name, p.Open())
		}
	}

	conn := g[0].Connect()
	var added *pb.MemberAddResponse
	var err error
	etcdtest.Eventually(t, "etcd takes another member", func() (string, bool) { // some seconds after its start
		request := &pb.MemberAddRequest{PeerURLs: []string{"https://127.0.0.9:2380"}, IsLearner: true}
		added, err = pb.NewClusterClient(conn).MemberAdd(t.Context(), request)
		return fmt.Sprint(err), err == nil
	})
	etcdtest.Eventually(t, "all list the new member", func() (string, bool) {
		s := c.Survey(t.Context(), g.Targets())
		return etcdtest.Show(s), s.Agreed && len(s.Members) == 4
	})
	glances("somebody added a learner", whole, false, g...)
	_, err = pb.NewClusterClient(conn).MemberRemove(t.Context(), &pb.MemberRemoveRequest{ID: added.Member.ID})
	etcdtest.Must(t, err)
	etcdtest.Eventually(t, "the member is gone", func() (string, bool) {
		s := c.Survey(t.Context(), g.Targets())
		return etcdtest.Show(s), s.Agreed && len(s.Members) == 3
	})
	glances("it is gone again", whole, true, g...)

	alarm := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, MemberID: g[1].ID(), Alarm: pb.AlarmType_NOSPACE}
	_, err = pb.NewMaintenanceClient(conn).Alarm(t.Context(), alarm)
	etcdtest.Must(t, err)
	etcdtest.Eventually(t, "all know of the alarm", func() (string, bool) {
		for _, p := range g {
			if len(p.Status().Errors) == 0 {
				return p.Name + " does not", false
			}
		}
		return "", true
	})
	glances("an alarm is active", whole, false, g...)
	alarm.Action = pb.AlarmRequest_DEACTIVATE
	_, err = pb.NewMaintenanceClient(conn).Alarm(t.Context(), alarm)
	etcdtest.Must(t, err)

	leader := g.Leader()
	leader.Kill()
	glances("the member is dead", whole, false, leader)
	etcdtest.Eventually(t, "another leads", func() (string, bool) {
		s := c.Survey(t.Context(), g.Targets())
		leads := slices.ContainsFunc(s.Members, func(m etcd.Member) bool { return m.Leader && m.Name != leader.Name })
		return etcdtest.Show(s), s.Agreed && leads
	})
	glances("another leads", whole, false, g.But(leader)...)
	glances("there is no such survey", etcd.Survey{}, false, g.But(leader)...)
}

// BenchmarkGlance is what a glance costs over a connection that is open: process-ns/op is the processor time of this side.
func BenchmarkGlance(b *testing.B) {
	ca := etcdtest.NewAuthority(b)
	g := etcdtest.Run(b, ca, three)
	c := etcd.Open(ca.Client())
	b.Cleanup(c.Close)
	whole := c.Survey(b.Context(), g.Targets())
	began := processorTime(b)
	for b.Loop() {
		if !c.Glance(b.Context(), g[0].Target(), whole) {
			b.Fatal("something differs")
		}
	}
	b.ReportMetric(float64((processorTime(b)-began).Nanoseconds())/float64(b.N), "process-ns/op")
}

// processorTime is what this process has taken so far.
func processorTime(tb testing.TB) time.Duration {
	var used syscall.Rusage
	etcdtest.Must(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
