package etcd_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// differ are the names of the members that a comparison names.
func differ(c etcd.Comparison) string {
	var names []string
	for _, m := range c.Differ {
		names = append(names, m.Name)
	}
	return strings.Join(names, " ")
}

// change changes one byte of a value in the data of a member that does not run.
func change(t *testing.T, p *etcdtest.Process, value string) {
	t.Helper()
	db, err := bolt.Open(p.Data(), 0o600, nil)
	etcdtest.Must(t, err)
	changed := 0
	etcdtest.Must(t, db.Update(func(tx *bolt.Tx) error {
		keys := tx.Bucket([]byte("key"))
		found := map[string][]byte{}
		_ = keys.ForEach(func(k, v []byte) error {
			if bytes.Contains(v, []byte(value)) {
				found[string(k)] = bytes.Replace(v, []byte(value), []byte(strings.ToUpper(value)), 1)
			}
			return nil
		})
		for k, v := range found {
			changed++
			if err := keys.Put([]byte(k), v); err != nil {
				return err
			}
		}
		return nil
	}))
	etcdtest.Must(t, db.Close())
	if changed == 0 {
		t.Fatalf("no value contains %q", value)
	}
}

// TestCompare: the data of members are the same while they are written to and compacted; a member whose data were changed on its disk
// is reported; and a comparison that is not possible reports the reason.
func TestCompare(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three)
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	put := func(key string) {
		_, err := pb.NewKVClient(g[0].Connect()).Put(t.Context(), &pb.PutRequest{Key: []byte(key), Value: []byte("value of " + key)})
		etcdtest.Must(t, err)
	}
	compared := func() etcd.Comparison { return c.Compare(t.Context(), g.Targets(), c.Survey(t.Context(), g.Targets())) }
	for i := range 20 {
		put(fmt.Sprint("key", i))
	}
	same := compared()
	if same.Why != "" || same.Revision < 20 || len(same.Differ) > 0 {
		t.Fatalf("three members whose data are the same: %+v", same)
	}
	etcdtest.Must(t, c.Compact(t.Context(), g.Targets(), same.Revision)) // to its newest revision
	if idle := compared(); idle.Why != "" || idle.Revision != same.Revision || len(idle.Differ) > 0 {
		t.Errorf("an etcd that was compacted to its newest revision: %+v", idle)
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 500 {
			put(fmt.Sprint("busy", i%7))
		}
	}()
	for range 5 {
		if busy := compared(); len(busy.Differ) > 0 || busy.Why != "" || busy.Revision < same.Revision {
			t.Errorf("while etcd is written to: %+v", busy)
		}
	}
	<-done

	victim := g.But(g.Leader())[0]
	victim.Kill()
	if out := compared(); out.Revision != 0 || !strings.Contains(out.Why, "is not healthy") {
		t.Errorf("with a member that is gone: %+v", out)
	}
	change(t, victim, "value of key7")
	victim.Start("existing", g.Initial())
	etcdtest.Eventually(t, "the member that was changed is named", func() (string, bool) {
		found := compared()
		return fmt.Sprintf("%+v", found), found.Why == "" && differ(found) == victim.Name
	})
	survey := c.Survey(t.Context(), g.Targets())
	for i := range survey.Members {
		if survey.Members[i].Name == victim.Name {
			survey.Members[i].Version += "0"
		}
	}
	if other := c.Compare(t.Context(), g.Targets(), survey); other.Revision != 0 || !strings.Contains(other.Why, "different versions") {
		t.Errorf("with a member of another version: %+v", other)
	}
	for i := range survey.Members {
		survey.Members[i].Learner = survey.Members[i].Name != victim.Name
	}
	if one := c.Compare(t.Context(), g.Targets(), survey); one.Why != "there are fewer than two voters" {
		t.Errorf("with one voter: %+v", one)
	}
}

// TestCompareTwoMembers: without a majority that has the same data all members are reported.
func TestCompareTwoMembers(t *testing.T) {
	ca := etcdtest.NewAuthority(t)
	g := etcdtest.Run(t, ca, three[:2])
	c := etcd.Open(ca.Client())
	t.Cleanup(c.Close)
	_, err := pb.NewKVClient(g[0].Connect()).Put(t.Context(), &pb.PutRequest{Key: []byte("a"), Value: []byte("value of a")})
	etcdtest.Must(t, err)
	survey := c.Survey(t.Context(), g.Targets())
	etcdtest.Must(t, c.Defragment(t.Context(), g.Targets(), survey.Members[0].ID)) // what was written is on the disk then
	etcdtest.Must(t, c.Defragment(t.Context(), g.Targets(), survey.Members[1].ID))
	g[1].Kill()
	change(t, g[1], "value of a")
	g[1].Start("existing", g.Initial())
	etcdtest.Eventually(t, "both members are named", func() (string, bool) {
		found := c.Compare(t.Context(), g.Targets(), c.Survey(t.Context(), g.Targets()))
		return fmt.Sprintf("%+v", found), len(found.Differ) == 2 && found.Why == ""
	})
}
