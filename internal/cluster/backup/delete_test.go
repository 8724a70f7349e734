package backup_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clusterbackup "github.com/quorate/quorate/internal/cluster/backup"
	"github.com/quorate/quorate/internal/cluster/backup/store"
	"github.com/quorate/quorate/internal/core/backup"
)

// bucket is a bucket with versions and Object Lock: each deletion of a key adds a marker, whether there was an object or not, and what is
// locked cannot be deleted.
type bucket struct {
	store.Store
	deleted []string
	locked  string
}

// Delete implements store.Store.
func (b *bucket) Delete(ctx context.Context, key string) error {
	b.deleted = append(b.deleted, key[strings.Index(key, "/")+1:])
	if b.locked != "" && strings.HasSuffix(key, b.locked) {
		return fmt.Errorf("deleting %s: %w", key, store.ErrForbidden)
	}
	return b.Store.Delete(ctx, key)
}

// TestRefused: locked backups are reported and do not stop the deletion of others. A store that refuses every deletion is asked three
// times.
func TestRefused(t *testing.T) {
	b := &bucket{Store: folder(t)}
	catalog := clusterbackup.Catalog{Store: b, UID: uid}
	var names []string
	for i := range 10 {
		name := backup.Name(now.Add(time.Duration(i)*time.Hour), fmt.Sprintf("n%d", i))
		if err := b.Put(t.Context(), uid+"/"+name+"/manifest.json", strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	b.locked = names[0] + "/manifest.json"
	deleted, err := catalog.DeleteAll(t.Context(), names[:5])
	if !errors.Is(err, store.ErrForbidden) || !slices.Equal(deleted, names[1:5]) {
		t.Errorf("deleted are %q, want %q: %v", deleted, names[1:5], err)
	}
	b.locked, b.deleted = "manifest.json", nil
	if deleted, err = catalog.DeleteAll(t.Context(), names[5:]); !errors.Is(err, store.ErrForbidden) || len(deleted) > 0 ||
		len(b.deleted) != 3 {
		t.Errorf("deleted are %q after %d requests: %v", deleted, len(b.deleted), err)
	}
}

// TestDeletesOnce: in a bucket with versions nothing is deleted that is not there, also where the deletion of a backup was refused half way
// and what is left is cleared later, again and again.
func TestDeletesOnce(t *testing.T) {
	b := &bucket{Store: folder(t)}
	catalog := clusterbackup.Catalog{Store: b, UID: uid}
	put := func(name string, objects ...string) {
		t.Helper()
		for _, object := range objects {
			if err := b.Put(t.Context(), uid+"/"+name+"/"+object, strings.NewReader("x")); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(b.deleted, want) {
			t.Errorf("%s: deleted are %q, want %q", what, b.deleted, want)
		}
		b.deleted = nil
	}
	first, second := backup.Name(now, "a"), backup.Name(now.Add(time.Hour), "b")
	put(first, "archive", "manifest.json")
	put(second, "archive", "manifest.json", "verified.json")
	for range 2 {
		if err := catalog.Delete(t.Context(), first); err != nil {
			t.Fatal(err)
		}
	}
	expect("one that was not verified, twice", first+"/manifest.json", first+"/archive")
	b.locked = "archive"
	if err := catalog.Delete(t.Context(), second); !errors.Is(err, store.ErrForbidden) {
		t.Errorf("a locked archive: %v", err)
	}
	expect("a locked archive", second+"/manifest.json", second+"/verified.json", second+"/archive")
	for range 2 {
		if err := catalog.Clear(t.Context(), now.Add(100*time.Hour)); !errors.Is(err, store.ErrForbidden) {
			t.Errorf("what is left: %v", err)
		}
		expect("what is left", second+"/archive")
	}
	b.locked = ""
	for range 2 {
		if err := catalog.Clear(t.Context(), now.Add(100*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	expect("once the lock has ended", second+"/archive")
	if err := catalog.Delete(t.Context(), "../"+second); err == nil {
		t.Error("a name that leads elsewhere is taken")
	}
}
