package backup_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"filippo.io/age"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/scratch"
	"github.com/quorate/quorate/internal/cluster/backup/store"
	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
	"github.com/quorate/quorate/internal/core/backup"
)

func TestMain(m *testing.M) {
	scratch.RunIfChild()
	os.Exit(m.Run())
}

const uid = "0f3c9d3e-5f9e-4ad5-a30e-6e3f3a3a3a3a"

// now is when the first backup of a test is taken.
var now = time.Date(2026, 11, 27, 17, 3, 12, 0, time.UTC)

// limits are those of a small etcd.
var limits = scratch.Limits{Memory: 1 << 30, Disk: 1 << 30}

// world is a real etcd and a store in a folder.
type world struct {
	t       testing.TB
	members etcdtest.Group
	client  *etcd.Cluster
	kv      pb.KVClient
	store   store.Store
	catalog clusterbackup.Catalog
	taken   int
}

func newWorld(t testing.TB, names ...string) *world {
	t.Helper()
	ca := etcdtest.NewAuthority(t)
	w := &world{t: t, members: etcdtest.Run(t, ca, names, "--quota-backend-bytes", "4294967296"), client: etcd.Open(ca.Client())}
	t.Cleanup(w.client.Close)
	w.kv = pb.NewKVClient(w.members[0].Connect())
	w.catalog = clusterbackup.Catalog{Store: folder(t), UID: uid}
	w.store = w.catalog.Store
	return w
}

func folder(t testing.TB) *store.Folder {
	t.Helper()
	f, err := store.OpenFolder(t.TempDir())
	etcdtest.Must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// fill writes keys as a cluster would: new ones, changed ones, deleted ones, some with a lease; then it compacts.
func (w *world) fill(keys, size int) {
	w.t.Helper()
	lease, err := pb.NewLeaseClient(w.members[0].Connect()).LeaseGrant(context.Background(), &pb.LeaseGrantRequest{TTL: 3600})
	etcdtest.Must(w.t, err)
	random := rand.New(rand.NewPCG(45, 2))
	value := make([]byte, size)
	var middle int64
	for i := range keys {
		for j := range value {
			value[j] = byte(random.Uint32())
		}
		put := &pb.PutRequest{Key: fmt.Appendf(nil, "/registry/things/%d", i*2/3), Value: value}
		if i%7 == 0 {
			put.Lease = lease.ID
		}
		response, err := w.kv.Put(context.Background(), put)
		etcdtest.Must(w.t, err)
		if i == keys/2 {
			middle = response.Header.Revision
		}
	}
	_, err = w.kv.DeleteRange(context.Background(), &pb.DeleteRangeRequest{Key: []byte("/registry/things/1"),
		RangeEnd: []byte("/registry/things/2")})
	etcdtest.Must(w.t, err)
	_, err = w.kv.Compact(context.Background(), &pb.CompactionRequest{Revision: middle, Physical: true})
	etcdtest.Must(w.t, err)
}

// request is the next backup, an hour after the last.
func (w *world) request(recipients ...string) clusterbackup.Request {
	at := now.Add(time.Duration(w.taken) * time.Hour)
	w.taken++
	return clusterbackup.Request{
		Name: backup.Name(at, fmt.Sprintf("t%d", w.taken)), Cluster: backup.Cluster{UID: uid, Namespace: "team", Name: "demo"},
		Kubernetes: "v1.36.3", Recipients: recipients,
		Fingerprints: map[string]string{"ca.crt": "ab"}, Files: map[string][]byte{"pki/ca.key": []byte("secret"),
			"kubeadm.yaml": bytes.Repeat([]byte("x"), 5000)},
		Scratch: w.t.TempDir(), Limits: limits, Now: at,
	}
}

// save takes a backup and stores it, without a proof in the store.
func (w *world) save(r clusterbackup.Request) (*clusterbackup.Taken, error) {
	return w.catalog.Save(w.t.Context(), r.Name, func(to io.Writer) (*clusterbackup.Taken, error) {
		return clusterbackup.Take(w.t.Context(), w.client, w.members.Targets(), r, to)
	})
}

// must takes, stores and proves a backup.
func (w *world) must(r clusterbackup.Request) *clusterbackup.Entry {
	w.t.Helper()
	taken, err := w.save(r)
	etcdtest.Must(w.t, err)
	etcdtest.Must(w.t, taken.Unproven)
	e := w.entry(r.Name)
	_, err = w.catalog.Verify(w.t.Context(), e, clusterbackup.Proof{Restored: taken.Restored, Now: r.Now})
	etcdtest.Must(w.t, err)
	return w.entry(r.Name)
}

func (w *world) entry(name string) *clusterbackup.Entry {
	w.t.Helper()
	e, err := w.catalog.Get(w.t.Context(), name)
	etcdtest.Must(w.t, err)
	etcdtest.Must(w.t, e.Err)
	return e
}

// proof restores a backup from the store.
func (w *world) proof(identities ...age.Identity) clusterbackup.Proof {
	return clusterbackup.Proof{Identities: identities, Scratch: w.t.TempDir(), Limits: limits, Now: now}
}

func identity(t testing.TB) *age.X25519Identity {
	t.Helper()
	i, err := age.GenerateX25519Identity()
	etcdtest.Must(t, err)
	return i
}

// read returns an object of the store.
func (w *world) read(key string) []byte {
	w.t.Helper()
	body, err := w.store.Get(w.t.Context(), key)
	etcdtest.Must(w.t, err)
	data, err := io.ReadAll(body)
	etcdtest.Must(w.t, err)
	etcdtest.Must(w.t, body.Close())
	return data
}

func (w *world) write(key string, data []byte) {
	w.t.Helper()
	etcdtest.Must(w.t, w.store.Put(w.t.Context(), key, bytes.NewReader(data)))
}
