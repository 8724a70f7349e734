package cache

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/gofrs/flock"
)

func TestPrune(t *testing.T) {
	root := t.TempDir()
	c := open(t, root, "", &recorder{})
	var builds atomic.Int32
	build := func(version string, change func(*Product)) Product {
		p := greeting(&builds)
		p.Version = version
		if change != nil {
			change(&p)
		}
		if _, err := c.Ensure(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	big := func(name string) func(*Product) {
		return func(p *Product) {
			p.Name = name
			p.Build = func(_ context.Context, w Workplace) error {
				return os.WriteFile(filepath.Join(w.Out, "big"), make([]byte, 1<<20), 0o644)
			}
		}
	}
	wanted := build("v2", nil)
	unknown := build("v3", nil)
	unknown.Host, unknown.HostErr = "", errors.New("no toolchain")
	otherPins := build("v2", func(p *Product) { p.Inputs = Sum("old pins") })
	otherHost := build("v2", func(p *Product) { p.Host = Sum("old toolchain") })
	used := build("v1", big("used"))
	large := build("v1", big("large"))
	// Its content is also that of a machine, which keeps it.
	linked := build("v1", big("linked"))
	if err := os.Link(filepath.Join(root, linked.Folder(), "big"), filepath.Join(t.TempDir(), "big")); err != nil {
		t.Fatal(err)
	}
	busy := build("v0", nil)
	lock := flock.New(c.lockFile(busy.Folder()))
	if had, err := lock.TryLock(); err != nil || !had {
		t.Fatal(had, err)
	}
	defer func() { _ = lock.Unlock() }()
	// Neither the build tools that lie beside, nor what only has a name like a product's.
	for _, foreign := range []string{"tools/golangci-lint", otherPins.Folder() + "-copy/manifest.json"} {
		if err := os.MkdirAll(filepath.Join(root, foreign), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	before := names(t, root)

	prune := func(dryRun bool) {
		t.Helper()
		removed, err := c.Prune([]Product{wanted, unknown}, []string{"/another/path/" + used.Folder() + "/big"}, dryRun)
		if err != nil {
			t.Fatal(err)
		}
		var folders []string
		for _, r := range removed {
			folders = append(folders, r.Folder)
			if is, isLarge := r.Bytes >= 1<<20, r.Folder == large.Folder(); is != isLarge || r.Bytes == 0 {
				t.Errorf("%s has %d bytes", r.Folder, r.Bytes)
			}
		}
		want := []string{otherPins.Folder(), otherHost.Folder(), large.Folder(), linked.Folder()}
		slices.Sort(want)
		if !slices.Equal(folders, want) {
			t.Errorf("removed %q\nwant %q", folders, want)
		}
	}
	prune(true)
	if now := names(t, root); !slices.Equal(now, before) {
		t.Errorf("a dry run left %q of %q", now, before)
	}
	prune(false)
	want := slices.DeleteFunc(before, func(name string) bool {
		return slices.Contains([]string{otherPins.Folder(), otherHost.Folder(), large.Folder(), linked.Folder()}, name)
	})
	if now := names(t, root); !slices.Equal(now, want) {
		t.Errorf("left %q\nwant %q", now, want)
	}
	if _, err := os.Stat(c.stampFile(filepath.Join(root, large.Folder()))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the note that a removed product was verified: %v", err)
	}
	empty(t, root)
	if removed, err := c.Prune([]Product{wanted, unknown}, []string{used.Folder()}, false); err != nil || len(removed) != 0 {
		t.Errorf("again: %v, %v", removed, err)
	}
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Files that several products link to are freed with the last of them.
func TestSharedFilesAreFreedOnce(t *testing.T) {
	root := t.TempDir()
	c := open(t, root, "", &recorder{})
	for _, name := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "a", "f"), make([]byte, 1<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(root, "a", "f"), filepath.Join(root, "b", "f")); err != nil {
		t.Fatal(err)
	}
	alone, err := c.freed([]string{"a"})
	if err != nil || alone[0] >= 1<<20 {
		t.Errorf("one of two: %v, %v", alone, err)
	}
	both, err := c.freed([]string{"a", "b"})
	if err != nil || both[0] >= 1<<20 || both[1] < 1<<20 {
		t.Errorf("both: %v, %v", both, err)
	}
}

func TestUsers(t *testing.T) {
	c := open(t, t.TempDir(), "", &recorder{})
	lives, goes := t.TempDir(), filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(goes, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, state := range []string{lives, goes, lives} {
		if err := c.AddUser(state); err != nil {
			t.Fatal(err)
		}
	}
	if users, err := c.Users(); err != nil || len(users) != 2 {
		t.Errorf("users %q, %v", users, err)
	}
	if err := os.Remove(goes); err != nil {
		t.Fatal(err)
	}
	if users, err := c.Users(); err != nil || !slices.Equal(users, []string{lives}) {
		t.Errorf("users %q, %v", users, err)
	}
	if left := names(t, filepath.Join(c.root, usersFolder)); len(left) != 1 {
		t.Errorf("notes %q are left, want one", left)
	}
}
