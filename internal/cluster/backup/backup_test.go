package backup_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/archive"
	"github.com/quorate/quorate/internal/cluster/backup/store"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
	"github.com/quorate/quorate/internal/core/backup"
)

// TestBackup: a backup of a real etcd is taken from a follower, stored, proven by restoring it, found again, proven again from the store
// alone, and deleted.
func TestBackup(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.fill(300, 500)
	owner := identity(t)
	for name, recipients := range map[string][]string{"plain": nil, "encrypted": {owner.Recipient().String()}} {
		t.Run(name, func(t *testing.T) {
			r := w.request(recipients...)
			e := w.must(r)
			if !e.Verified() || e.Manifest.Archive.Encrypted() != (recipients != nil) || (len(e.Manifest.Files) > 0) != (recipients != nil) {
				t.Errorf("verified %t, %+v", e.Verified(), e.Manifest)
			}
			m := e.Manifest
			leader := etcd.FormatID(w.members.Leader().ID())
			if m.Etcd.Member == leader || len(m.Etcd.Members) != 3 || m.Keys < 50 || m.Revision() < 300 || !strings.HasPrefix(m.Etcd.Version, "3.") {
				t.Errorf("%+v, led by %s", m, leader)
			}
			if _, err := w.catalog.Verify(t.Context(), e, w.proof(owner)); err != nil {
				t.Error(err)
			}
			_, err := w.catalog.Verify(t.Context(), e, w.proof())
			if (err != nil) != (recipients != nil) {
				t.Errorf("without an identity: %v", err)
			}
			stored := w.read(uid + "/" + r.Name + "/archive")
			if bytes.Contains(stored, []byte("secret")) || int64(len(stored)) != m.Archive.Size {
				t.Errorf("%d bytes are stored, the manifest says %d; a key is among them: %t", len(stored), m.Archive.Size,
					bytes.Contains(stored, []byte("secret")))
			}
		})
	}
	all, err := w.catalog.List(t.Context())
	etcdtest.Must(t, err)
	if len(all) != 2 || !all[0].Verified() || !all[1].Verified() {
		t.Fatalf("%d backups: %+v", len(all), all)
	}
	etcdtest.Must(t, w.catalog.Delete(t.Context(), all[0].Name))
	etcdtest.Must(t, w.catalog.Delete(t.Context(), all[0].Name))
	if _, err := w.catalog.Get(t.Context(), all[0].Name); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a backup that was deleted: %v", err)
	}
}

// TestVersions: backups of each minor version of etcd that Quorate knows can be proven, also of a member that was never compacted.
func TestVersions(t *testing.T) {
	for version, program := range map[string]func(testing.TB) string{"3.5": etcdtest.Older, "3.6": etcdtest.Middle, "3.7": etcdtest.Newer} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			ca := etcdtest.NewAuthority(t)
			p := etcdtest.NewProcess(t, ca, "a")
			p.Path = program(t)
			w := &world{t: t, members: etcdtest.Group{p}, client: etcd.Open(ca.Client()), catalog: clusterbackup.Catalog{Store: folder(t), UID: uid}}
			t.Cleanup(w.client.Close)
			p.Start("new", w.members.Initial())
			etcdtest.Eventually(t, "it is healthy", func() (string, bool) {
				s := w.client.Survey(t.Context(), w.members.Targets())
				return s.Why, s.Agreed && s.Why == ""
			})
			w.kv, w.store = pb.NewKVClient(p.Connect()), w.catalog.Store
			for range 2 {
				if e := w.must(w.request()); !e.Verified() || !strings.HasPrefix(e.Manifest.Etcd.Version, version) {
					t.Errorf("verified %t: %+v", e.Verified(), e.Manifest)
				}
				w.fill(50, 100)
			}
		})
	}
}

// TestCompacted: a backup is proven although the member was compacted at its newest revision, for which it remembers a hash that nobody
// else can compute, and although it is compacted while the backup is taken.
func TestCompacted(t *testing.T) {
	w := newWorld(t, "a")
	compact := func() {
		put, err := w.kv.Put(t.Context(), &pb.PutRequest{Key: []byte("last"), Value: []byte("one")})
		etcdtest.Must(t, err)
		_, err = w.kv.Compact(t.Context(), &pb.CompactionRequest{Revision: put.Header.Revision, Physical: true})
		etcdtest.Must(t, err)
	}
	w.fill(50, 100)
	compact()
	w.must(w.request())
	r := w.request()
	taken, err := w.catalog.Save(t.Context(), r.Name, func(to io.Writer) (*clusterbackup.Taken, error) {
		compacting := writer(func(p []byte) (int, error) {
			compact()
			return to.Write(p)
		})
		return clusterbackup.Take(t.Context(), w.client, w.members.Targets(), r, compacting)
	})
	if err != nil || taken.Unproven != nil {
		t.Errorf("compacted while the backup is taken: %v, %v", err, taken)
	}
}

type writer func([]byte) (int, error)

// Write implements io.Writer.
func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestNoBackup: what cannot be backed up, or fails on the way, leaves nothing that counts as a backup.
func TestNoBackup(t *testing.T) {
	w := newWorld(t, "a")
	w.fill(20, 100)
	small := w.request()
	small.Limits.Disk = 80 << 20 // 4 MiB for the snapshot, and 72 MiB for the log of etcd
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		request clusterbackup.Request
		context context.Context
		want    string
	}{
		"no such recipient": {w.request("nobody"), t.Context(), `recipient "nobody"`},
		"given up":          {w.request(), canceled, "context canceled"},
	} {
		_, err := w.catalog.Save(test.context, test.request.Name, func(to io.Writer) (*clusterbackup.Taken, error) {
			return clusterbackup.Take(test.context, w.client, w.members.Targets(), test.request, to)
		})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.save(small); err != nil {
		t.Errorf("a snapshot within the limit: %v", err)
	}
	w.fill(100, 100_000)
	tooSmall := w.request()
	tooSmall.Limits.Disk = small.Limits.Disk
	if _, err := w.save(tooSmall); err == nil || !strings.Contains(err.Error(), "more than 4194304 bytes") {
		t.Errorf("a snapshot above the limit: %v", err)
	}
	all, err := w.catalog.List(t.Context())
	etcdtest.Must(t, err)
	if len(all) != 1 {
		t.Errorf("%d backups, want the one that was within the limit", len(all))
	}
}

// TestUnproven: a backup whose restore fails is stored, and does not count as verified.
func TestUnproven(t *testing.T) {
	w := newWorld(t, "a")
	w.fill(20, 100)
	for name, change := range map[string]func(*clusterbackup.Request){
		"no scratch folder":     func(r *clusterbackup.Request) { r.Scratch = "" },
		"a folder that is gone": func(r *clusterbackup.Request) { r.Scratch += "/gone" },
		"too little memory":     func(r *clusterbackup.Request) { r.Limits.Memory = 8 << 20 }, // less than a Go program begins with
	} {
		r := w.request()
		change(&r)
		taken, err := w.save(r)
		if err != nil || taken.Unproven == nil || taken.Restored != nil {
			t.Errorf("%s: %v, %+v", name, err, taken)
			continue
		}
		t.Logf("%s: %v", name, taken.Unproven)
		if e := w.entry(r.Name); e.Verified() {
			t.Errorf("%s: it counts as verified", name)
		}
		if left, err := os.ReadDir(r.Scratch); r.Scratch != "" && err == nil && len(left) > 0 {
			t.Errorf("%s: %d folders are left", name, len(left))
		}
	}
}

// TestClear: what uploads left behind goes after a day, and backups stay.
func TestClear(t *testing.T) {
	w := newWorld(t, "a")
	kept := w.must(w.request())
	orphan := backup.Name(now, "lost")
	w.write(uid+"/"+orphan+"/archive", []byte("x"))
	w.write(uid+"/notes/archive", []byte("what a person left there"))
	count := func() (n int) {
		etcdtest.Must(t, w.store.List(t.Context(), uid, func(string) error { n++; return nil }))
		return n
	}
	etcdtest.Must(t, w.catalog.Clear(t.Context(), now.Add(23*time.Hour)))
	if n := count(); n != 5 {
		t.Errorf("%d objects, want 5: what is younger than a day stays", n)
	}
	etcdtest.Must(t, w.catalog.Clear(t.Context(), now.Add(25*time.Hour)))
	if n := count(); n != 4 {
		t.Errorf("%d objects, want the backup's 3 and one that is not ours", n)
	}
	if !w.entry(kept.Name).Verified() {
		t.Error("the backup is gone")
	}
}

// TestReadArchive: an archive can be read with its identity alone, and gives the snapshot and the files.
func TestReadArchive(t *testing.T) {
	w := newWorld(t, "a")
	owner := identity(t)
	e := w.must(w.request(owner.Recipient().String()))
	body, err := w.catalog.Archive(t.Context(), e)
	etcdtest.Must(t, err)
	defer body.Close()
	var snapshot bytes.Buffer
	contents, err := archive.Read(body, []age.Identity{owner}, 1<<30, &snapshot)
	etcdtest.Must(t, err)
	if string(contents.Files["pki/ca.key"]) != "secret" || int64(snapshot.Len()) != e.Manifest.Snapshot.Size ||
		contents.Manifest.Name != e.Name {
		t.Errorf("%d bytes of snapshot, files %v", snapshot.Len(), contents.Files)
	}
}

// reads counts what is read of a store.
type reads struct {
	store.Store
	n int
}

// Get implements store.Store.
func (r *reads) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	r.n++
	return r.Store.Get(ctx, key)
}

// TestSeen: what was read and verified is read once, the newest each time; what somebody takes away or changes does not count any more.
func TestSeen(t *testing.T) {
	w := newWorld(t, "a")
	for range 3 {
		w.must(w.request())
	}
	counted := &reads{Store: w.store}
	c := clusterbackup.Catalog{Store: counted, UID: uid, Seen: map[string]*clusterbackup.Entry{}}
	list := func(gets int, verified ...bool) []*clusterbackup.Entry {
		t.Helper()
		counted.n = 0
		all, err := c.List(t.Context())
		etcdtest.Must(t, err)
		var got []bool
		for _, e := range all {
			c.Seen[e.Name] = e
			got = append(got, e.Verified())
		}
		if counted.n != gets || !slices.Equal(got, verified) {
			t.Errorf("%d objects were read, want %d; verified are %v, want %v", counted.n, gets, got, verified)
		}
		return all
	}
	all := list(6, true, true, true)
	list(2, true, true, true)
	etcdtest.Must(t, w.store.Delete(t.Context(), key(all[0], "archive")))
	list(4, false, true, true)
	w.write(key(all[2], "manifest.json"), w.read(key(all[1], "manifest.json")))
	// The newest cannot be read, so the one before is the newest.
	list(5, false, true, false)
}

// TestSeenAhead: a backup with a time in the future does not take the place of the newest, which is read each time.
func TestSeenAhead(t *testing.T) {
	w := newWorld(t, "a")
	w.must(w.request())
	newest := w.must(w.request())
	ahead := w.request()
	ahead.Now = time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	ahead.Name = backup.Name(ahead.Now, "ahead")
	w.must(ahead)
	c := clusterbackup.Catalog{Store: w.store, UID: uid, Seen: map[string]*clusterbackup.Entry{}}
	for range 2 {
		all, err := c.List(t.Context())
		etcdtest.Must(t, err)
		if len(all) != 3 || !all[1].Verified() {
			t.Fatalf("%v", all)
		}
		for _, e := range all {
			c.Seen[e.Name] = e
		}
	}
	w.write(key(newest, "manifest.json"), []byte("{}"))
	all, err := c.List(t.Context())
	etcdtest.Must(t, err)
	if all[1].Verified() {
		t.Error("the newest backup was changed, and counts as verified")
	}
}
