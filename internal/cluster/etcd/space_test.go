package etcd_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// TestSpace: a cluster whose quota is full of what was overwritten takes writes again after a compaction, a defragmentation of each member,
// and the end of the alarm, and not before.
func TestSpace(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three, "--quota-backend-bytes=8388608")
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	kv := pb.NewKVClient(g[0].Connect())
	put := func() error {
		_, err := kv.Put(t.Context(), &pb.PutRequest{Key: []byte("one"), Value: []byte(strings.Repeat("x", 512<<10))})
		return rpctypes.Error(err)
	}
	for range 64 {
		if err := put(); errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
	}
	full := c.Survey(t.Context(), g.Targets())
	at := slices.IndexFunc(full.Members, func(m etcd.Member) bool { return slices.Contains(m.Alarms, "NOSPACE") })
	if at < 0 || !errors.Is(put(), rpctypes.ErrNoSpace) {
		t.Fatalf("etcd still takes writes:\n%s", etcdtest.Show(full))
	}
	for _, m := range full.Members {
		if m.Quota != 8<<20 || m.Size < m.Quota/2 || m.InUse < m.Size/2 {
			t.Errorf("%s: %d of %d bytes, %d in use", m.Name, m.Size, m.Quota, m.InUse)
		}
	}
	if err := c.Defragment(t.Context(), g.Targets(), 1); err == nil {
		t.Error("a member that is not there was defragmented")
	}

	revision := full.Members[at].Revision
	for range 2 { // the second time it is done already
		etcdtest.Must(t, c.Compact(t.Context(), g.Targets(), revision))
	}
	if err := c.Compact(t.Context(), g.Targets(), revision+1000); err == nil {
		t.Error("etcd was compacted to a revision that it never had")
	}
	for _, m := range full.Members {
		etcdtest.Must(t, c.Defragment(t.Context(), g.Targets(), m.ID))
	}
	for _, m := range c.Survey(t.Context(), g.Targets()).Members {
		if m.Size > m.Quota/2 {
			t.Errorf("%s takes %d of %d bytes after its defragmentation", m.Name, m.Size, m.Quota)
		}
	}
	if err := put(); !errors.Is(err, rpctypes.ErrNoSpace) {
		t.Errorf("a write under the alarm: %v", err)
	}
	for range 2 {
		etcdtest.Must(t, c.Disarm(t.Context(), g.Targets()))
	}
	etcdtest.Must(t, put())
	if s := c.Survey(t.Context(), g.Targets()); s.Why != "" {
		t.Errorf("something is wrong after all:\n%s", etcdtest.Show(s))
	}
}
