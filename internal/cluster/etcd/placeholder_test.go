package etcd_test

import (
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
	"github.com/quorate/quorate/internal/core/plan"
)

// TestPlaceholder verifies that a real etcd refuses a learner while a placeholder is in the list, and that the list alone identifies it.
// Each order may be repeated, the quorum is as it was, and a voter that starts again knows the placeholder.
func TestPlaceholder(t *testing.T) {
	for name, program := range map[string]func(testing.TB) string{"3.7": etcdtest.Newer, "3.6": etcdtest.Middle, "3.5": etcdtest.Older} {
		for _, members := range [][]string{{"cp-1"}, three} {
			t.Run(name+" with "+strings.Join(members, " "), func(t *testing.T) {
				t.Parallel()
				checkPlaceholder(t, runs(t, program(t), members))
			})
		}
	}
}

// members are those of a real etcd, and the client with which they are asked.
type members struct {
	etcdtest.Group
	client *etcd.Cluster
	ca     *etcdtest.Authority
}

// runs starts an etcd of one version.
func runs(t *testing.T, program string, names []string, args ...string) members {
	t.Helper()
	ca := etcdtest.NewAuthority(t)
	g := members{ca: ca, client: etcd.Open(ca.Client())}
	t.Cleanup(g.client.Close)
	for _, name := range names {
		p := etcdtest.NewProcess(t, ca, name, args...)
		p.Path = program
		g.Group = append(g.Group, p)
	}
	for _, p := range g.Group {
		p.Start("new", g.Initial())
	}
	g.eventually(t, "all are healthy", func(s etcd.Survey) bool { return s.Agreed && s.Why == "" })
	return g
}

// eventually waits until the members say something, and returns the placeholders among them.
func (g members) eventually(t *testing.T, what string, is func(etcd.Survey) bool) []etcd.Member {
	t.Helper()
	var s etcd.Survey
	etcdtest.Eventually(t, what, func() (string, bool) {
		s = g.client.Survey(t.Context(), g.Targets())
		return etcdtest.Show(s), is(s)
	})
	return placeholders(s)
}

func placeholders(s etcd.Survey) []etcd.Member {
	return slices.DeleteFunc(slices.Clone(s.Members), func(m etcd.Member) bool { return !m.IsPlaceholder() })
}

// join asks for another learner, as kubeadm does.
func (g members) join(t *testing.T, name string) error {
	t.Helper()
	p := etcdtest.NewProcess(t, g.ca, name)
	_, err := pb.NewClusterClient(g.Group[0].Connect()).MemberAdd(t.Context(), &pb.MemberAddRequest{PeerURLs: []string{p.Peer},
		IsLearner: true})
	return err
}

func checkPlaceholder(t *testing.T, g members) {
	voters := len(g.Group)
	for range 2 { // the second finds the first
		etcdtest.Must(t, g.client.AddPlaceholder(t.Context(), g.Targets()))
	}
	found := g.eventually(t, "a placeholder",
		func(s etcd.Survey) bool { return s.Agreed && len(s.Members) == voters+1 && len(placeholders(s)) == 1 })
	if m := found[0]; m.Health != plan.Unknown || m.Name != "" ||
		!slices.Equal(m.PeerURLs, []string{"https://quorate-placeholder@127.0.0.1:9"}) {
		t.Errorf("the placeholder is %+v", m)
	}
	if err := g.join(t, "cp-9"); err == nil || !strings.Contains(err.Error(), "too many learner members") {
		t.Errorf("another learner was added beside the placeholder: %v", err)
	}
	if err := g.client.Promote(t.Context(), g.Targets(), found[0].ID); err == nil {
		t.Error("a placeholder votes")
	}
	last := g.Group[voters-1]
	last.Kill()
	last.Start("existing", g.Initial())
	g.eventually(t, "the voter that started anew is healthy, and the placeholder is known", func(s etcd.Survey) bool {
		return s.Agreed && len(placeholders(s)) == 1 &&
			voters == len(slices.DeleteFunc(slices.Clone(s.Members), func(m etcd.Member) bool { return m.Health != plan.Healthy }))
	})
	for range 2 { // what is gone can be removed again
		etcdtest.Must(t, g.client.RemoveMember(t.Context(), g.Targets(), found[0].ID))
	}
	g.eventually(t, "all are healthy without it", func(s etcd.Survey) bool { return s.Agreed && s.Why == "" && len(s.Members) == voters })
	etcdtest.Eventually(t, "a learner is added again", func() (string, bool) {
		err := g.join(t, "cp-9")
		return "refused", err == nil
	})
	if err := g.client.AddPlaceholder(t.Context(), g.Targets()); err == nil || !strings.Contains(err.Error(), "too many learner members") {
		t.Errorf("a placeholder was added beside a learner: %v", err)
	}
}

// TestPlaceholderAnew: one that was removed is added again at once, although etcd makes the same ID of the same peer URL within a second.
func TestPlaceholderAnew(t *testing.T) {
	g := runs(t, etcdtest.Binary(t), []string{"cp-1"})
	for range 3 {
		etcdtest.Must(t, g.client.AddPlaceholder(t.Context(), g.Targets()))
		found := g.eventually(t, "a placeholder", func(s etcd.Survey) bool { return len(placeholders(s)) == 1 })
		etcdtest.Must(t, g.client.RemoveMember(t.Context(), g.Targets(), found[0].ID))
	}
}

// TestPlaceholders: where etcd takes several learners, each order takes one slot more, and none when all are taken.
func TestPlaceholders(t *testing.T) {
	g := runs(t, etcdtest.Binary(t), []string{"cp-1"}, "--max-learners=2")
	for range 3 {
		etcdtest.Must(t, g.client.AddPlaceholder(t.Context(), g.Targets()))
	}
	found := g.eventually(t, "two placeholders", func(s etcd.Survey) bool { return len(placeholders(s)) == 2 })
	if err := g.join(t, "cp-9"); err == nil {
		t.Error("another learner was added beside the placeholders")
	}
	for _, m := range found {
		etcdtest.Must(t, g.client.RemoveMember(t.Context(), g.Targets(), m.ID))
	}
	etcdtest.Must(t, g.join(t, "cp-9"))
}

// TestIsPlaceholder: what others add is none.
func TestIsPlaceholder(t *testing.T) {
	for at, want := range map[string]bool{
		"https://quorate-placeholder@127.0.0.1:9": true, "https://quorate-placeholder-3@127.0.0.1:9": true,
		"https://127.0.0.1:9": false, "https://127.0.0.1:2380": false, "https://quorate-placeholder@10.0.0.1:2380": false,
		"https://10.0.0.1:2380": false, "%": false, "": false,
	} {
		if got := (etcd.Member{Learner: true, PeerURLs: []string{at}}).IsPlaceholder(); got != want {
			t.Errorf("%q: %t", at, got)
		}
		if (etcd.Member{PeerURLs: []string{at}}).IsPlaceholder() ||
			(etcd.Member{Learner: true, Name: "cp-1", PeerURLs: []string{at}}).IsPlaceholder() {
			t.Errorf("%q: a voter, or a member that has started, is a placeholder", at)
		}
	}
}
