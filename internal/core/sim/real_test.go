package sim

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
	"github.com/quorate/quorate/internal/core/plan"
)

const (
	// soon is how long a change may take that etcd does not refuse. An election
	// takes 1 to 2 s; etcd refuses at once, or says nothing for want of a quorum.
	soon = 4 * time.Second
	// never is how long something is waited for that must not succeed.
	never = 1500 * time.Millisecond
)

// cluster is the real one, of processes on loopback.
type cluster struct {
	t       *testing.T
	ca      *etcdtest.Authority
	path    string // its program
	net     *etcdtest.Network
	ours    *etcd.Cluster
	list    etcdtest.Group // who is in etcd's list
	started map[string]bool
	still   map[string]bool // who was killed or frozen
	frozen  map[string]bool // who was frozen
	away    []string        // who is cut off
	removed etcdtest.Group  // who was removed while it was cut off
	ids     map[string]uint64
}

// newCluster is empty. Only one that is to be cut has a network of its own.
func newCluster(t *testing.T, cut bool, path string) *cluster {
	ca := etcdtest.NewAuthority(t)
	c := &cluster{t: t, ca: ca, path: path, ours: etcd.Open(ca.Client()),
		started: map[string]bool{}, still: map[string]bool{}, frozen: map[string]bool{}, ids: map[string]uint64{}}
	if cut {
		c.net = etcdtest.NewNetwork(t)
	}
	t.Cleanup(c.ours.Close)
	t.Cleanup(func() {
		for _, p := range c.list {
			if t.Failed() && c.started[p.Name] {
				t.Logf("%s ended=%t:\n%s", p.Name, p.Ended(), p.Log())
			}
		}
	})
	return c
}

// do carries out a step. An error is a refusal.
func (c *cluster) do(s step) error {
	c.t.Helper()
	switch s.verb {
	case "pass":
		<-time.After(s.passes)
		return nil
	case "add", "placeholder", "promote", "lead", "remove":
		wait := soon
		if s.refused {
			wait = never
		}
		ctx, cancel := context.WithTimeout(c.t.Context(), wait)
		defer cancel()
		return c.change(ctx, s)
	case "begin":
		for _, name := range s.names {
			c.list = append(c.list, c.process(name))
		}
	case "cut":
		c.away = s.names
		c.net.Cut(c.alive(), c.named(s.names...))
	case "heal":
		c.net.Heal()
		c.away = nil
		for _, p := range c.removed {
			c.ends(p)
		}
	}
	named := c.named(s.names...)
	if len(named) != len(s.names) {
		c.t.Fatalf("%q: not all are members", s.line)
	}
	for _, p := range named {
		c.treat(s.verb, p)
	}
	return nil
}

// treat does something to a process.
func (c *cluster) treat(verb string, p *etcdtest.Process) {
	c.t.Helper()
	switch verb {
	case "begin":
		p.Start("new", c.list.Initial())
		c.started[p.Name] = true
	case "start", "return":
		p.Start("existing", c.list.Initial())
		c.started[p.Name], c.still[p.Name] = true, false
	case "crash":
		p.Kill()
		c.still[p.Name] = true
	case "freeze":
		p.Freeze()
		c.still[p.Name], c.frozen[p.Name] = true, true
	case "thaw":
		p.Thaw()
		c.still[p.Name], c.frozen[p.Name] = false, false
	}
}

func (c *cluster) process(name string) *etcdtest.Process {
	p := etcdtest.NewProcess(c.t, c.ca, name)
	p.Path = c.path
	if c.net != nil {
		c.net.Join(p)
	}
	return p
}

// named are those of the list with these names, in the list's order.
func (c *cluster) named(names ...string) etcdtest.Group {
	var out etcdtest.Group
	for _, p := range c.list {
		if slices.Contains(names, p.Name) {
			out = append(out, p)
		}
	}
	return out
}

// alive are those of the list that run.
func (c *cluster) alive() etcdtest.Group {
	var out etcdtest.Group
	for _, p := range c.list {
		if c.started[p.Name] && !c.still[p.Name] {
			out = append(out, p)
		}
	}
	return out
}

// boss is whom orders go to that our own client does not know: the leader, or whoever runs.
func (c *cluster) boss() *etcdtest.Process {
	c.t.Helper()
	alive := c.alive()
	if at := slices.IndexFunc(alive, func(p *etcdtest.Process) bool {
		s := p.Status()
		return s.Leader == s.Header.MemberId
	}); at >= 0 {
		return alive[at]
	}
	return alive[0]
}

// change gives an order: through our own client where that knows it.
func (c *cluster) change(ctx context.Context, s step) error {
	c.t.Helper()
	switch name := s.names[0]; s.verb {
	case "add":
		p := c.process(name)
		added, err := pb.NewClusterClient(c.boss().Connect()).MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: []string{p.Peer},
			IsLearner: s.learner})
		if err != nil {
			return err
		}
		c.ids[name] = added.Member.ID
		c.list = append(c.list, p)
		return nil
	case "placeholder":
		if err := c.ours.AddPlaceholder(ctx, c.targets()); err != nil {
			return err
		}
		p := c.process(name)
		p.Peer = "https://quorate-placeholder@127.0.0.1:9"
		c.list = append(c.list, p)
		return nil
	case "promote":
		_, err := pb.NewClusterClient(c.boss().Connect()).MemberPromote(ctx, &pb.MemberPromoteRequest{ID: c.ids[name]})
		return err
	case "lead":
		return c.ours.MoveLeader(ctx, c.targets(), c.ids[name])
	default:
		if err := c.ours.RemoveMember(ctx, c.targets(), c.ids[name]); err != nil {
			return err
		}
		c.forget(name)
		return nil
	}
}

// forget takes a member off our list that etcd has removed.
func (c *cluster) forget(name string) {
	c.t.Helper()
	for _, p := range c.named(name) {
		c.list = c.list.But(p)
		switch {
		case !c.started[name] || c.still[name]:
		case slices.Contains(c.away, name):
			c.removed = append(c.removed, p) // it hears of it later
		default:
			c.ends(p)
		}
	}
}

// ends waits for the end of one that was removed.
func (c *cluster) ends(p *etcdtest.Process) {
	c.t.Helper()
	etcdtest.Eventually(c.t, p.Name+" was removed and ends", func() (string, bool) { return "it runs", p.Ended() })
}

// targets are those that have ever started.
func (c *cluster) targets() []etcd.Target {
	var out []etcd.Target
	for _, p := range c.list {
		if c.started[p.Name] {
			out = append(out, p.Target())
		}
	}
	return out
}

// look is what our own client sees, and what the members say of their connections.
func (c *cluster) look() view {
	c.t.Helper()
	s := c.ours.Survey(c.t.Context(), c.targets())
	v := view{members: map[string]string{}, agreed: s.Agreed}
	for _, m := range s.Members {
		at := slices.IndexFunc(c.list, func(p *etcdtest.Process) bool { return slices.Equal(m.PeerURLs, []string{p.Peer}) })
		if at < 0 {
			v.members[etcd.FormatID(m.ID)] = "a member of which nobody knows " + etcd.FormatID(m.ID)
			continue
		}
		c.ids[c.list[at].Name] = m.ID
		v.add(c.list[at].Name, m.Learner, m.Name != "", m.Leader, m.Health)
	}
	if s.Known {
		v.connected = c.connected()
	}
	if s.Why == "" && slices.ContainsFunc(s.Members, func(m etcd.Member) bool { return m.Health != plan.Healthy }) {
		c.t.Errorf("a survey has nothing to complain of:\n%s", etcdtest.Show(s))
	}
	return v
}

// connected are those on the side that counts, if each of them who runs is connected to all others
// of them and to nobody else. Who was frozen is one of them: nobody notices.
func (c *cluster) connected() []string {
	c.t.Helper()
	var side []string
	for _, p := range c.list {
		if c.started[p.Name] && (!c.still[p.Name] || c.frozen[p.Name]) && !slices.Contains(c.away, p.Name) {
			side = append(side, p.Name)
		}
	}
	slices.Sort(side)
	for _, p := range c.named(side...) {
		if c.frozen[p.Name] {
			continue
		}
		links, err := p.Connected()
		if err != nil {
			return []string{err.Error()}
		}
		for _, q := range c.list {
			if want := slices.Contains(side, q.Name); q != p && links[c.ids[q.Name]] != want {
				return []string{fmt.Sprintf("%s to %s: %t", p.Name, q.Name, !want)}
			}
		}
	}
	return side
}

// write puts a key through a member.
func (c *cluster) write(through string, hopeful bool) error {
	c.t.Helper()
	wait := never
	if hopeful {
		wait = soon
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), wait)
	defer cancel()
	_, err := pb.NewKVClient(c.named(through)[0].Connect()).Put(ctx, &pb.PutRequest{Key: []byte("key"), Value: []byte("value")})
	return err
}
