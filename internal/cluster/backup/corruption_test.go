package backup_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"filippo.io/age"
	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"

	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/archive"
	"github.com/quorate/quorate/internal/cluster/backup/scratch"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// corruptions is how many the test injects at least.
const corruptions = 200

// corruption is a store that was changed, and who can prove that.
type corruption struct {
	w       *world
	owner   age.Identity
	a, b, c *clusterbackup.Entry // a and b are plain, c is encrypted
	random  *rand.Rand
	objects map[string][]byte
	tried   int
	missed  int
}

// TestCorruption counts: each corruption of what a store holds, and of what a member sends, is found. What is not corrupted is proven.
func TestCorruption(t *testing.T) {
	owner := identity(t)
	w := newWorld(t, "a")
	w.fill(400, 300)
	c := &corruption{w: w, owner: owner, random: rand.New(rand.NewPCG(45, 3)), objects: map[string][]byte{}}
	c.a = w.must(w.request())
	w.fill(100, 300)
	c.b = w.must(w.request())
	c.c = w.must(w.request(owner.Recipient().String()))
	for _, e := range []*clusterbackup.Entry{c.a, c.b, c.c} {
		for _, object := range []string{"archive", "manifest.json", "verified.json"} {
			c.objects[key(e, object)] = w.read(key(e, object))
		}
		if !c.proven(e.Name) {
			t.Fatalf("backup %s is not proven before anything is corrupted", e.Name)
		}
	}
	for _, e := range []*clusterbackup.Entry{c.a, c.c} {
		c.bytes(e, "archive", 40)
	}
	c.bytes(c.a, "manifest.json", 40)
	c.bytes(c.a, "verified.json", 20)
	c.swaps()
	c.snapshots(44)
	t.Logf("%d corruptions, %d not found", c.tried, c.missed)
	if c.missed > 0 || c.tried < corruptions {
		t.Errorf("%d of %d corruptions were not found, want 0 of at least %d", c.missed, c.tried, corruptions)
	}
}

func key(e *clusterbackup.Entry, object string) string { return uid + "/" + e.Name + "/" + object }

// proven reports whether a backup counts as verified, and can be restored from the store alone.
func (c *corruption) proven(name string) bool {
	e, err := c.w.catalog.Get(c.w.t.Context(), name)
	if err != nil || e.Err != nil || !e.Verified() {
		return false
	}
	_, err = c.w.catalog.Verify(c.w.t.Context(), e, c.w.proof(c.owner))
	return err == nil
}

// attempt writes changed objects, asks whether the backup is still proven, and writes the objects as they were.
func (c *corruption) attempt(what, name string, changed map[string][]byte) {
	for k, data := range changed {
		if bytes.Equal(data, c.objects[k]) {
			return // nothing was changed
		}
		c.w.write(k, data)
	}
	c.tried++
	if c.proven(name) {
		c.missed++
		c.w.t.Errorf("not found: %s", what)
	}
	for k := range changed {
		c.w.write(k, c.objects[k])
	}
}

// bytes changes the bytes of one object in each way: a bit, a byte that is missing or too many, an end that is missing, a block that moved,
// zeros.
func (c *corruption) bytes(e *clusterbackup.Entry, object string, times int) {
	whole := c.objects[key(e, object)]
	for i := range times {
		data, at := bytes.Clone(whole), c.random.IntN(len(whole))
		end := min(len(data), at+1+c.random.IntN(64))
		switch i % 6 {
		case 0:
			data[at] ^= 1 << c.random.IntN(8)
		case 1:
			data = data[:at]
		case 2:
			data = append(data[:at], data[end:]...)
		case 3:
			data = append(data, data[at:end]...)
		case 4:
			other := c.random.IntN(len(data) - (end - at) + 1)
			copy(data[other:], whole[at:end])
			copy(data[at:end], whole[other:])
		case 5:
			clear(data[at:end])
		}
		c.attempt(fmt.Sprintf("%s of %s, way %d at byte %d of %d", object, e.Name, i%6, at, len(whole)), e.Name,
			map[string][]byte{key(e, object): data})
	}
}

// swaps puts objects of one backup in the place of another's, alone and together.
func (c *corruption) swaps() {
	all := []*clusterbackup.Entry{c.a, c.b, c.c}
	objects := []string{"archive", "manifest.json", "verified.json"}
	for _, into := range all {
		for _, from := range all {
			for set := 1; set < 1<<len(objects) && into != from; set++ {
				changed := map[string][]byte{}
				for i, object := range objects {
					if set&(1<<i) != 0 {
						changed[key(into, object)] = c.objects[key(from, object)]
					}
				}
				c.attempt(fmt.Sprintf("set %d of %s in %s", set, from.Name, into.Name), into.Name, changed)
			}
		}
	}
}

// snapshots changes what a member sends, so that all digests of the archive are right: only the restore can find it. In every other try
// etcd's own checksum is right too, as if the member's disk had changed the data.
func (c *corruption) snapshots(times int) {
	t := c.w.t
	body, err := c.w.catalog.Archive(t.Context(), c.b)
	etcdtest.Must(t, err)
	var sent bytes.Buffer
	_, err = archive.Read(body, nil, 1<<30, &sent)
	etcdtest.Must(t, err)
	etcdtest.Must(t, body.Close())
	database := sent.Bytes()[:sent.Len()-sha256.Size]
	if !c.restores(sent.Bytes()) {
		t.Fatal("the snapshot is not proven before anything is corrupted")
	}
	for i := range times {
		c.tried++
		var data []byte
		if i%2 == 0 {
			data = bytes.Clone(sent.Bytes())
			data[c.random.IntN(len(data))] ^= 1 << c.random.IntN(8)
		} else {
			data = c.edit(database, i/2)
			sum := sha256.Sum256(data)
			data = append(data, sum[:]...)
		}
		if c.restores(data) {
			c.missed++
			t.Errorf("not found: change %d of the snapshot", i)
		}
	}
}

// covered returns the revisions in the database that etcd's hash covers: those after its compaction, and of each key the newest.
func (c *corruption) covered(keys *bolt.Bucket) [][]byte {
	t := c.w.t
	newest := map[string][]byte{}
	var all [][]byte
	etcdtest.Must(t, keys.ForEach(func(revision, value []byte) error {
		var kv mvccpb.KeyValue
		etcdtest.Must(t, kv.Unmarshal(value))
		revision = bytes.Clone(revision)
		if int64(binary.BigEndian.Uint64(revision)) > c.b.Manifest.Witnesses[0].CompactRevision {
			all = append(all, revision)
		} else {
			newest[string(kv.Key)] = revision
		}
		return nil
	}))
	etcdtest.Must(t, keys.ForEach(func(revision, value []byte) error {
		var kv mvccpb.KeyValue
		etcdtest.Must(t, kv.Unmarshal(value))
		if old := newest[string(kv.Key)]; bytes.Compare(old, revision) < 0 {
			delete(newest, string(kv.Key))
		}
		return nil
	}))
	return append(all, slices.SortedFunc(maps.Values(newest), bytes.Compare)...)
}

// edit changes one key in the database as no etcd did.
func (c *corruption) edit(database []byte, i int) []byte {
	t := c.w.t
	path := filepath.Join(t.TempDir(), "db")
	etcdtest.Must(t, os.WriteFile(path, database, 0o600))
	db, err := bolt.Open(path, 0o600, nil)
	etcdtest.Must(t, err)
	etcdtest.Must(t, db.Update(func(tx *bolt.Tx) error {
		keys := tx.Bucket([]byte("key"))
		all := c.covered(keys)
		at := all[c.random.IntN(len(all))]
		value := bytes.Clone(keys.Get(at))
		switch i % 5 {
		case 0:
			return keys.Delete(at)
		case 1:
			value[c.random.IntN(len(value))] ^= 1 << c.random.IntN(8)
			return keys.Put(at, value)
		case 2:
			return keys.Put(append(bytes.Clone(at[:16]), 1), value)
		case 3:
			other := slices.IndexFunc(all, func(k []byte) bool { return !bytes.Equal(keys.Get(k), value) })
			return keys.Put(at, bytes.Clone(keys.Get(all[other])))
		default:
			return tx.DeleteBucket([]byte("key"))
		}
	}))
	etcdtest.Must(t, db.Close())
	data, err := os.ReadFile(path)
	etcdtest.Must(t, err)
	return data
}

// restores reports whether a snapshot would be stored as a proven backup, with the hashes that the member answered for what it really has.
func (c *corruption) restores(snapshot []byte) bool {
	t := c.w.t
	m := *c.b.Manifest
	s, err := scratch.Start(t.Context(), t.TempDir(), m.Revision(), limits)
	etcdtest.Must(t, err)
	writer, err := archive.NewWriter(io.Discard, nil)
	etcdtest.Must(t, err)
	_, err = io.MultiWriter(writer, s).Write(snapshot)
	etcdtest.Must(t, err)
	sent, err := writer.Finish(m)
	etcdtest.Must(t, err)
	restored, err := s.Wait()
	return err == nil && sent.Differs(*restored) == nil
}
