package etcdtest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

// Group is the members of one cluster.
type Group []*Process

// Run starts a cluster of members with these names and waits until all follow a leader.
func Run(tb testing.TB, ca *Authority, names []string, args ...string) Group {
	tb.Helper()
	Binary(tb)
	var g Group
	for _, name := range names {
		g = append(g, NewProcess(tb, ca, name, args...))
	}
	for _, p := range g {
		p.Start("new", g.Initial())
	}
	g.settle(tb, ca)
	return g
}

// Initial is the list of all as name=url, which a member is started with.
func (g Group) Initial() []string {
	var out []string
	for _, p := range g {
		out = append(out, p.Name+"="+p.Peer)
	}
	return out
}

// Targets are all members as their clients see them.
func (g Group) Targets() []etcd.Target {
	var out []etcd.Target
	for _, p := range g {
		out = append(out, p.Target())
	}
	return out
}

// settle waits until all members say the same and are named.
func (g Group) settle(tb testing.TB, ca *Authority) {
	tb.Helper()
	c := etcd.Open(ca.Client())
	defer c.Close()
	Eventually(tb, "all members are healthy and agree", func() (string, bool) {
		s := c.Survey(context.Background(), g.Targets())
		for _, m := range s.Members {
			if m.Name == "" {
				return "unnamed member", false
			}
		}
		return s.Why, s.Agreed && s.Why == ""
	})
}

// Leader waits for a member that says it leads.
func (g Group) Leader() *Process {
	g[0].tb.Helper()
	var leader *Process
	Eventually(g[0].tb, "a leader", func() (string, bool) {
		for _, p := range g {
			if s := p.Status(); s.Leader == s.Header.MemberId {
				leader = p
			}
		}
		return "none", leader != nil
	})
	return leader
}

// But is the group without one.
func (g Group) But(gone *Process) Group {
	var out Group
	for _, p := range g {
		if p != gone {
			out = append(out, p)
		}
	}
	return out
}

// Must ends the test on an error.
func Must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// Eventually asks until the answer is yes, for 20 s, and ends the test with the last state otherwise.
func Eventually(tb testing.TB, what string, check func() (state string, ok bool)) {
	tb.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		state, ok := check()
		if ok {
			return
		}
		select {
		case <-deadline.C:
			tb.Fatalf("%s: not within 20 s: %s", what, state)
		case <-tick.C:
		}
	}
}

// Show writes a survey for people.
func Show(s etcd.Survey) string {
	var b strings.Builder
	fmt.Fprintf(&b, "known=%t agreed=%t why=%q\n", s.Known, s.Agreed, s.Why)
	for _, m := range s.Members {
		fmt.Fprintf(&b, "  %s learner=%t leader=%t health=%q alarms=%v why=%q\n", m.Name, m.Learner, m.Leader, m.Health, m.Alarms, m.Why)
	}
	return b.String()
}
