package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

var writers = map[string]func(string, []byte, fs.FileMode) error{"Write": Write, "WriteCached": WriteCached}

func TestAFileIsReplaced(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	for name, write := range writers {
		dir := t.TempDir()
		path := filepath.Join(dir, "file")
		for content, mode := range map[string]fs.FileMode{"": 0o644, "some": 0o600, "much": 0o755} {
			if err := write(path, []byte(content), mode); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got, err := os.ReadFile(path)
			if err != nil || string(got) != content {
				t.Errorf("%s %q left %q, %v", name, content, got, err)
			}
			if s, err := os.Stat(path); err != nil || s.Mode() != mode {
				t.Errorf("%s with mode %s left %v, %v", name, mode, s.Mode(), err)
			}
		}
		only(t, dir, "file")
	}
}

// TestAFailureLeavesTheOldFile: and nothing beside it.
func TestAFailureLeavesTheOldFile(t *testing.T) {
	for name, write := range writers {
		dir := t.TempDir()
		path := filepath.Join(dir, "folder")
		if err := os.MkdirAll(filepath.Join(path, "inside"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := write(path, []byte("new"), 0o600); err == nil {
			t.Errorf("%s replaced a folder", name)
		}
		if _, err := os.Stat(filepath.Join(path, "inside")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		only(t, dir, "folder")
		if err := write(filepath.Join(dir, "no", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s into a folder that is not there gave %v", name, err)
		}
	}
}

// TestRemove: a writer that was killed leaves what it wrote under another name; that goes with the file, and nothing of other files.
func TestRemove(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	for range 2 {
		for _, name := range []string{"file", ".file.499748093", ".file.1", ".file.other", ".file.json.3", ".other.3", "file.4"} {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) != 4 {
			t.Errorf("%v, %v", entries, err)
		}
	}
	if err := Remove(filepath.Join(dir, "no", "file")); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func only(t *testing.T, dir, want string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil || len(all) != 1 || all[0].Name() != want {
		t.Errorf("the folder holds %v, %v, want %s only", all, err, want)
	}
}

// TestNoReaderSeesAPart: while others write, each as much of one letter.
func TestNoReaderSeesAPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	const size = 1 << 16
	content := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, size) }
	if err := WriteCached(path, content(0), 0o600); err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	failed := make(chan error, 4)
	for i := range 4 {
		writing.Go(func() {
			for range 100 {
				if err := WriteCached(path, content(i), 0o600); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		})
	}
	for range 400 {
		got, err := os.ReadFile(path)
		if err != nil || len(got) != size || !bytes.Equal(got, content(int(got[0]-'a'))) {
			t.Fatal(fmt.Errorf("%d bytes, want %d of one letter: %w", len(got), size, err))
		}
	}
	writing.Wait()
	for range 4 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// TestLinkIsReplaced: a link at the path is replaced, and the file that it leads to stays as it is.
func TestLinkIsReplaced(t *testing.T) {
	dir := t.TempDir()
	victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "file")
	if err := os.WriteFile(victim, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, path); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(victim)
	info, failure := os.Lstat(path)
	if err != nil || failure != nil || string(data) != "old" || !info.Mode().IsRegular() {
		t.Errorf("%q, %v, %v, %v", data, info, err, failure)
	}
}
