package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/archive"
	"github.com/quorate/quorate/internal/cluster/backup/store"
	"github.com/quorate/quorate/internal/cluster/backup/store/s3test"
	"github.com/quorate/quorate/internal/core/backup"
)

// versions is a bucket of a service that keeps versions, with backups whose snapshots are no etcd's.
type versions struct {
	t       *testing.T
	service *s3test.Service
	catalog clusterbackup.Catalog
}

func newVersions(t *testing.T, d s3test.Dialect) *versions {
	t.Helper()
	s := s3test.Serve(t, d)
	opened, err := store.S3{
		Endpoint: s.URL, Bucket: s3test.Bucket, Prefix: "team", AccessKey: "id", SecretKey: "key", PathStyle: true, CA: s.CA,
	}.Open()
	if err != nil {
		t.Fatal(err)
	}
	below, err := store.Below(opened, "ns")
	if err != nil {
		t.Fatal(err)
	}
	return &versions{t, s, clusterbackup.Catalog{Store: below, UID: uid}}
}

// snapshotOf is the snapshot of a backup.
func snapshotOf(name string) string { return "snapshot of " + name }

// put stores a backup, as if it was verified.
func (v *versions) put(hour int, verified bool) string {
	v.t.Helper()
	taken := now.Add(time.Duration(hour-7*24) * time.Hour)
	name := backup.Name(taken, "test")
	m := backup.Manifest{
		Version: backup.FormatVersion, Name: name, Cluster: backup.Cluster{UID: v.catalog.UID, Namespace: "team", Name: "demo"}, Taken: taken,
		Keys: 1, Witnesses: []backup.Witness{{Revision: 5, CompactRevision: 1, Hash: 7}},
	}
	saved, err := v.catalog.Save(v.t.Context(), name, func(to io.Writer) (*clusterbackup.Taken, error) {
		w, err := archive.NewWriter(to, nil)
		if err != nil {
			return nil, err
		}
		_, err = w.Write([]byte(snapshotOf(name)))
		manifest, finished := w.Finish(m)
		return &clusterbackup.Taken{Manifest: manifest}, errors.Join(err, finished)
	})
	if err != nil {
		v.t.Fatal(err)
	}
	if verified {
		v.verify(name, saved.Manifest)
	}
	return name
}

// verify stores the proof of a backup.
func (v *versions) verify(name string, m *backup.Manifest) {
	v.t.Helper()
	e, err := v.catalog.Get(v.t.Context(), name)
	if err != nil {
		v.t.Fatal(err)
	}
	r := &backup.Restored{Witness: m.Witnesses[0], Keys: 1, Latest: 5, Snapshot: m.Snapshot}
	if _, err := v.catalog.Verify(v.t.Context(), e, clusterbackup.Proof{Restored: r, Now: now}); err != nil {
		v.t.Fatal(err)
	}
}

// key is that of an object in the service.
func (v *versions) key(name, object string) string {
	return "team/ns/" + uid + "/" + name + "/" + object
}

// drop deletes objects of a backup, all if none is named.
func (v *versions) drop(name string, objects ...string) {
	if len(objects) == 0 {
		objects = []string{"manifest.json", "verified.json", "archive"}
	}
	for _, o := range objects {
		v.service.Delete(v.key(name, o))
	}
}

// looks lists the backups, and returns which are there and which were changed, each with what it is.
func (v *versions) looks(since string, most int) (there, changed string) {
	v.t.Helper()
	all, err := v.catalog.List(v.t.Context())
	if err != nil {
		v.t.Fatal(err)
	}
	a, b, err := v.catalog.Changed(v.t.Context(), all, since, most)
	if err != nil {
		v.t.Fatal(err)
	}
	text := func(all []*clusterbackup.Entry) string {
		var words []string
		for _, e := range all {
			word := fmt.Sprint(e.Name[9:11], " ", e.Changed)
			if e.Verified() {
				word += " verified"
			}
			if e.Err != nil {
				word += " broken"
			}
			words = append(words, strings.Join(strings.Fields(word), " "))
		}
		return strings.Join(words, ", ")
	}
	return text(a), text(b)
}

// reads finds a backup by its name and reads its snapshot.
func (v *versions) reads(name string) error {
	v.t.Helper()
	e, err := v.catalog.Find(v.t.Context(), name)
	if err != nil {
		return err
	}
	if e.Err != nil {
		return e.Err
	}
	if err := v.catalog.Compare(v.t.Context(), e); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := v.catalog.Snapshot(v.t.Context(), e, nil, 1000, &out); err != nil {
		return err
	}
	if got := out.String(); got != snapshotOf(name) {
		return fmt.Errorf("the snapshot is %q", got)
	}
	return nil
}

// TestChanged: what somebody deleted or overwrote in a bucket with versions is found as it was before, by its name, and does not count for
// what is there.
func TestChanged(t *testing.T) {
	otherManifest := func(v *versions, name string) {
		foreign := newVersions(v.t, s3test.Dialect{})
		foreign.catalog.UID = "another"
		data, err := foreign.manifest(foreign.put(1, false))
		if err != nil {
			v.t.Fatal(err)
		}
		v.service.Put(v.key(name, "manifest.json"), data)
	}
	for name, test := range map[string]struct {
		dialect        s3test.Dialect
		happens        func(v *versions, name string)
		there, changed string
		// unreadable is what reading it says; empty: it is read as it was.
		unreadable string
	}{
		"nothing":     {s3test.Dialect{}, func(*versions, string) {}, "18 verified, 19 verified", "", ""},
		"all deleted": {s3test.Dialect{}, func(v *versions, name string) { v.drop(name) }, "18 verified", "19 deleted verified", ""},
		"all deleted, in pages": {s3test.Dialect{Pages: 1}, func(v *versions, name string) { v.drop(name) }, "18 verified", "19 deleted verified",
			""},
		"lists without sizes": {s3test.Dialect{BareLists: true}, func(v *versions, name string) { v.drop(name) },
			"18 verified", "19 deleted verified", ""},
		"the manifest deleted": {s3test.Dialect{}, func(v *versions, name string) { v.drop(name, "manifest.json") },
			"18 verified", "19 deleted verified", ""},
		"the archive deleted": {s3test.Dialect{}, func(v *versions, name string) { v.drop(name, "archive") },
			"18 verified", "19 deleted verified", ""},
		"deleted twice": {s3test.Dialect{}, func(v *versions, name string) { v.drop(name); v.drop(name) },
			"18 verified", "19 deleted verified", ""},
		"the manifest overwritten": {s3test.Dialect{}, func(v *versions, name string) {
			v.service.Put(v.key(name, "manifest.json"), []byte("{}"))
		}, "18 verified", "19 overwritten verified", ""},
		"a manifest of another cluster": {s3test.Dialect{}, otherManifest, "18 verified", "19 overwritten verified", ""},
		"a manifest of another cluster, then deleted": {s3test.Dialect{}, func(v *versions, name string) {
			otherManifest(v, name)
			v.drop(name)
		}, "18 verified", "19 deleted verified", ""},
		"the archive overwritten": {s3test.Dialect{}, func(v *versions, name string) {
			v.service.Put(v.key(name, "archive"), []byte("x"))
		}, "18 verified", "19 overwritten verified", ""},
		"the archive overwritten by one of its size": {s3test.Dialect{}, func(v *versions, name string) {
			v.service.Put(v.key(name, "archive"), v.flipped(name))
		}, "18 verified", "19 overwritten", ""},
		"the archive overwritten again and again": {s3test.Dialect{}, func(v *versions, name string) {
			for i, data := 0, v.archive(name); i < 50; i++ {
				data[len(data)/2]++
				v.service.Put(v.key(name, "archive"), slices.Clone(data))
				v.service.Put(v.key(name, "manifest.json"), []byte("{}"))
			}
		}, "18 verified", "19 overwritten", ""},
		"overwritten, and put back": {s3test.Dialect{}, func(v *versions, name string) {
			was := v.archive(name)
			v.service.Put(v.key(name, "archive"), []byte("x"))
			v.service.Put(v.key(name, "archive"), was)
		}, "18 verified", "19 overwritten", ""},
		"stored twice as it is": {s3test.Dialect{}, func(v *versions, name string) {
			v.service.Put(v.key(name, "archive"), v.archive(name))
		}, "18 verified, 19 verified", "", ""},
		"deleted, and put back": {s3test.Dialect{}, func(v *versions, name string) {
			was := v.archive(name)
			v.drop(name, "archive")
			v.service.Put(v.key(name, "archive"), was)
		}, "18 verified, 19 verified", "", ""},
		"deleted, and the archive's versions removed": {s3test.Dialect{}, func(v *versions, name string) {
			v.drop(name)
			v.service.Forget(v.key(name, "archive"), 1)
		}, "18 verified", "", "not found"},
		"markers of deletions only": {s3test.Dialect{}, func(v *versions, name string) {
			v.drop(name)
			for _, object := range []string{"manifest.json", "verified.json", "archive"} {
				v.service.Forget(v.key(name, object), 1)
			}
		}, "18 verified", "", "not found"},
		"only nonsense is left": {s3test.Dialect{}, func(v *versions, name string) {
			v.service.Put(v.key(name, "manifest.json"), []byte("{}"))
			v.service.Forget(v.key(name, "manifest.json"), 1)
			v.drop(name)
		}, "18 verified", "19 deleted broken", "no version is left that can be used"},
		"the proof deleted": {s3test.Dialect{}, func(v *versions, name string) { v.drop(name, "verified.json") },
			"18 verified, 19", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.dialect.Versioned = true
			v := newVersions(t, test.dialect)
			v.put(1, true)
			newest := v.put(2, true)
			test.happens(v, newest)
			if there, changed := v.looks("", 10); there != test.there || changed != test.changed {
				t.Errorf("there %q, want %q; changed %q, want %q", there, test.there, changed, test.changed)
			}
			err := v.reads(newest)
			if (err == nil) != (test.unreadable == "") || err != nil && !strings.Contains(err.Error(), test.unreadable) {
				t.Errorf("reading it: %v, want %q", err, test.unreadable)
			}
		})
	}
}

// archive returns the archive that is there now.
func (v *versions) archive(name string) []byte {
	v.t.Helper()
	body, err := v.catalog.Archive(v.t.Context(), &clusterbackup.Entry{Name: name})
	if err != nil {
		v.t.Fatal(err)
	}
	data, err := io.ReadAll(body)
	if err := errors.Join(err, body.Close()); err != nil {
		v.t.Fatal(err)
	}
	return data
}

// flipped is the archive that is there now with another bit.
func (v *versions) flipped(name string) []byte {
	data := v.archive(name)
	data[len(data)/2] ^= 1
	return data
}

// manifest returns that of a backup as it is stored.
func (v *versions) manifest(name string) ([]byte, error) {
	e, err := v.catalog.Get(v.t.Context(), name)
	if err != nil {
		return nil, err
	}
	return e.Manifest.Encode()
}

// TestChangedLeftAlone: neither looking at old versions, nor proving or deleting a backup that was deleted, nor clearing writes a marker or
// an object.
func TestChangedLeftAlone(t *testing.T) {
	v := newVersions(t, s3test.Dialect{Versioned: true})
	v.put(1, true)
	newest := v.put(2, true)
	v.drop(newest)
	keys := v.service.Keys()
	for range 2 {
		v.looks("", 10)
		e, err := v.catalog.Find(t.Context(), newest)
		if err != nil || !e.IsOld() || !e.Verified() {
			t.Fatalf("%+v, %v", e, err)
		}
		r := e.Verification.Restored
		if _, err := v.catalog.Verify(t.Context(), e, clusterbackup.Proof{Restored: &r, Now: now}); err != nil {
			t.Error(err)
		}
		err = errors.Join(v.catalog.Delete(t.Context(), newest), v.catalog.Clear(t.Context(), now.Add(1000*time.Hour)))
		if err != nil {
			t.Error(err)
		}
	}
	if got := v.service.Keys(); !slices.Equal(got, keys) || len(v.service.Deletes()) > 0 {
		t.Errorf("there are %q, before %q; deleted were %q", got, keys, v.service.Deletes())
	}
}

// TestChangedUnknown: where a service does not tell versions, or the credentials do not allow it, what is there counts, and an error says
// what is missing where a backup is not there.
func TestChangedUnknown(t *testing.T) {
	v := newVersions(t, s3test.Dialect{Versioned: true, NoVersions: true})
	older := v.put(1, true)
	newest := v.put(2, true)
	v.drop(newest)
	all, err := v.catalog.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	there, changed, err := v.catalog.Changed(t.Context(), all, "", 10)
	if !errors.Is(err, store.ErrForbidden) || len(there) != 1 || len(changed) != 0 {
		t.Errorf("%d are there, %d changed: %v", len(there), len(changed), err)
	}
	if err := v.reads(older); err != nil {
		t.Error(err)
	}
	if err := v.reads(newest); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "old versions cannot be read") {
		t.Error(err)
	}
	c := clusterbackup.Catalog{Store: folder(t), UID: uid}
	if _, _, err := c.Changed(t.Context(), nil, "", 10); !errors.Is(err, store.ErrNoVersions) {
		t.Errorf("a folder: %v", err)
	}
	if _, err := c.Find(t.Context(), newest); !errors.Is(err, store.ErrNotFound) || strings.Contains(err.Error(), "old versions") {
		t.Errorf("a folder: %v", err)
	}
}

// TestChangedBounded: however many backups were deleted or overwritten, so many are read as are asked for, the newest; those before a name
// are not looked at. What was overwritten and is one too many does not count.
func TestChangedBounded(t *testing.T) {
	v := newVersions(t, s3test.Dialect{Versioned: true, Pages: 7})
	var names []string
	for hour := range 6 {
		names = append(names, v.put(hour, true))
	}
	for _, name := range names[:5] {
		v.drop(name)
	}
	reads := 0
	v.service.Answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("versionId") {
			reads++
		}
		return false
	}
	if there, changed := v.looks("", 2); there != "22 verified" || changed != "20 deleted verified, 21 deleted verified" || reads != 4 {
		t.Errorf("there %q, changed %q, %d reads", there, changed, reads)
	}
	if there, changed := v.looks(names[5], 2); there != "22 verified" || changed != "" {
		t.Errorf("from the newest on: there %q, changed %q", there, changed)
	}
	for hour := range 3 {
		names = append(names, v.put(6+hour, true))
	}
	for _, name := range names[6:] {
		v.service.Put(v.key(name, "archive"), []byte("x"))
	}
	there, changed := v.looks("", 2)
	if there != "22 verified" || changed != "00 overwritten verified, 01 overwritten verified" {
		t.Errorf("there %q, changed %q", there, changed)
	}
}
