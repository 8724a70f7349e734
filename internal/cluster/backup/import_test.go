package backup_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"filippo.io/age"

	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/etcd/etcdtest"
)

// TestImport: an archive that a person kept becomes the verified backup again that it was, also in place of one that was damaged in the
// store. What is not proven to be of this cluster, and whole, is refused and not stored.
func TestImport(t *testing.T) {
	owner := identity(t)
	w := newWorld(t, "a")
	w.fill(20, 30)
	for name, e := range map[string]*clusterbackup.Entry{
		"plain": w.must(w.request()), "encrypted": w.must(w.request(owner.Recipient().String())),
	} {
		kept := w.read(key(e, "archive"))
		t.Run(name+", deleted in the store", func(t *testing.T) {
			etcdtest.Must(t, w.catalog.Delete(t.Context(), e.Name))
			w.imports(t, owner, e, kept)
		})
		t.Run(name+", damaged in the store", func(t *testing.T) {
			damaged := bytes.Clone(kept)
			damaged[len(damaged)/2] ^= 1
			w.write(key(e, "archive"), damaged)
			w.imports(t, owner, e, kept)
		})
		t.Run(name+", refused", func(t *testing.T) {
			etcdtest.Must(t, w.catalog.Delete(t.Context(), e.Name))
			w.refuses(t, owner, e.Name, kept)
		})
		w.imports(t, owner, e, kept)
		if _, err := w.catalog.Import(t.Context(), bytes.NewReader(kept), w.proof()); (err == nil) == e.Manifest.Archive.Encrypted() {
			t.Errorf("%s, without an identity: %v", name, err)
		}
	}
	snapshot := []byte(strings.Repeat("\x00", 16) + "\xed\xda\x0c\xed as bbolt begins a database")
	if _, err := w.catalog.Import(t.Context(), bytes.NewReader(snapshot), w.proof(owner)); !errors.Is(err, clusterbackup.ErrNoArchive) {
		t.Errorf("a snapshot of etcdctl: %v", err)
	}
}

// imports imports an archive, and compares what comes of it with the backup that it was.
func (w *world) imports(t *testing.T, owner age.Identity, was *clusterbackup.Entry, archive []byte) {
	t.Helper()
	e, err := w.catalog.Import(t.Context(), bytes.NewReader(archive), w.proof(owner))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := w.catalog.Get(t.Context(), was.Name)
	if err != nil || !e.Verified() || !stored.Verified() {
		t.Fatalf("imported %+v, stored %+v, %v", e, stored, err)
	}
	before, _ := was.Manifest.Encode()
	if after, err := stored.Manifest.Encode(); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the manifest was %s, and is %s: %v", before, after, err)
	}
}

// refuses has archives refused that are no backup of this cluster.
func (w *world) refuses(t *testing.T, owner age.Identity, name string, kept []byte) {
	t.Helper()
	flipped := bytes.Clone(kept)
	flipped[len(flipped)/2] ^= 1
	elsewhere := w.catalog
	elsewhere.UID = "another"
	for what, test := range map[string]struct {
		in   clusterbackup.Catalog
		data []byte
	}{
		"a flipped bit": {w.catalog, flipped}, "no end": {w.catalog, kept[:len(kept)-7]}, "nothing": {w.catalog, nil},
		"bytes after its end": {w.catalog, append(bytes.Clone(kept), "more"...)}, "another cluster": {elsewhere, kept},
	} {
		if e, err := test.in.Import(t.Context(), bytes.NewReader(test.data), w.proof(owner)); err == nil {
			t.Errorf("%s: imported as %+v", what, e)
		}
		if _, err := test.in.Get(t.Context(), name); !errors.Is(err, clusterbackup.ErrNotFound) {
			t.Errorf("%s: it is stored: %v", what, err)
		}
	}
}
