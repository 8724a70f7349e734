package upgrader

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/steps"
)

// shared is a node whose files lie in a folder that all its users may write to, with a file elsewhere that must stay as it is.
func shared(t *testing.T) (s *scene, victim string) {
	t.Helper()
	s = staged(t)
	victim = filepath.Join(s.dir, "root", "victim")
	s.write(victim, "root's")
	if err := os.Chmod(s.node, 0o777); err != nil {
		t.Fatal(err)
	}
	return s, victim
}

// untouched checks that the file elsewhere is as it was, and alone in its folder.
func (s *scene) untouched(victim string) {
	s.t.Helper()
	data, err := os.ReadFile(victim)
	entries, failure := os.ReadDir(filepath.Dir(victim))
	if err != nil || failure != nil || string(data) != "root's" || len(entries) != 1 {
		s.t.Errorf("root's folder was written to: %q, %v, %v, %v", data, entries, err, failure)
	}
}

// TestLinksOfOthers: links that wait under the names that the upgrader uses lead it nowhere.
func TestLinksOfOthers(t *testing.T) {
	s, victim := shared(t)
	target := filepath.Join(s.node, "kubelet")
	for _, name := range []string{beside(target), beside(target) + ".part", beside(beside(target)) + ".part", target + ".new"} {
		if err := os.Symlink(victim, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyOwned(filepath.Join(s.at.stage(), target), target+".new"); err != nil {
		t.Fatal(err)
	}
	if err := copyOwned(filepath.Join(s.at.stage(), target), target); err != nil {
		t.Fatal(err)
	}
	s.untouched(victim)
	for _, do := range []func() error{s.at.prepare, s.at.replace, func() error { return s.at.restore() }} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
		s.untouched(victim)
	}
	s.want("restored", map[string]string{"kubelet": "old", "kubelet.new": "new", "other": "stays"})
}

// TestFolderBecomesALink: a folder that another user replaces by a link after files were staged leads nowhere, in no phase.
func TestFolderBecomesALink(t *testing.T) {
	for name, do := range map[string]func(l layout, source, target string) error{
		"prepare": func(l layout, _, _ string) error { return l.prepare() },
		"replace": func(l layout, _, _ string) error { return l.replace() },
		"restore": func(l layout, _, _ string) error { return l.restore() },
		"discard": func(l layout, _, _ string) error { return l.discard() },
		"copy":    func(_ layout, source, target string) error { return copyOwned(source, target) },
		"back up": func(l layout, _, target string) error { return copyOwned(target, filepath.Join(l.saved(), target)) },
		"remove":  func(_ layout, _, target string) error { return removeFile(target) },
	} {
		t.Run(name, func(t *testing.T) {
			s, victim := shared(t)
			target := filepath.Join(s.node, "app", "victim")
			staged := filepath.Join(s.at.stage(), target)
			s.write(staged, "new")
			if err := os.Symlink(filepath.Dir(victim), filepath.Join(s.node, "app")); err != nil {
				t.Fatal(err)
			}
			err := do(s.at, staged, target)
			if goesOn := name == "restore" || name == "discard"; goesOn != (err == nil) || err != nil &&
				!strings.Contains(err.Error(), "other users of the node may have made") {
				t.Errorf("%v", err)
			}
			s.untouched(victim)
		})
	}
}

// TestRestoreGoesOn: the way back is not held up by what another user made of a folder: what is root's is put back.
func TestRestoreGoesOn(t *testing.T) {
	s, victim := shared(t)
	s.write(filepath.Join(s.at.saved(), s.node, "app/victim"), "old")
	s.write(filepath.Join(s.at.saved(), s.node, "folder"), "old")
	s.write(filepath.Join(s.node, "kubelet"), "new")
	if err := os.Symlink(filepath.Dir(victim), filepath.Join(s.node, "app")); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(s.node, "folder/another's"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := s.at.restore(); err != nil {
		t.Fatal(err)
	}
	s.untouched(victim)
	if data, err := os.ReadFile(filepath.Join(s.node, "kubelet")); string(data) != "old" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
}

// TestFileBehindALinkOfOthers: a user's file is not written where a link leads that another user of the node may have made.
func TestFileBehindALinkOfOthers(t *testing.T) {
	for _, path := range []string{"link", "folder/new"} {
		s, n, _ := handed(t, map[string]string{"other": ""}, steps.File{Path: path})
		victim := filepath.Join(s.dir, "root", "victim")
		s.write(victim, "root's")
		for link, to := range map[string]string{"link": victim, "folder": filepath.Dir(victim)} {
			if err := os.Symlink(to, filepath.Join(s.node, link)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(s.node, 0o777); err != nil {
			t.Fatal(err)
		}
		if staged, err := n.stageFiles(); staged != 0 || err == nil || !strings.Contains(err.Error(), "other users of the node may have made") {
			t.Errorf("%s: %d, %v", path, staged, err)
		}
	}
}

// TestNoFile: what another user put in the place of a file has nobody wait.
func TestNoFile(t *testing.T) {
	s, _ := shared(t)
	target := filepath.Join(s.node, "empty")
	if err := syscall.Mkfifo(target, 0o666); err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(s.at.stage(), target)
	s.write(source, "")
	ended := make(chan error, 1)
	go func() { ended <- copyOwned(target, filepath.Join(s.at.saved(), target)) }()
	go func() {
		_, err := checksum(target)
		ended <- err
	}()
	if equal, err := same(source, target); equal || err != nil {
		t.Errorf("%v, %v", equal, err)
	}
	for range 2 {
		select {
		case err := <-ended:
			if err == nil || !strings.Contains(err.Error(), "no file") {
				t.Error(err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("a pipe is waited for")
		}
	}
}

// TestDiscard: what was cut off is removed, whatever wrote it, and nothing else is.
func TestDiscard(t *testing.T) {
	s, _ := shared(t)
	kubelet := filepath.Join(s.node, "kubelet")
	for _, left := range []string{beside(kubelet), beside(kubelet) + ".part", beside(kubelet) + ".12", beside(beside(kubelet)) + ".34"} {
		s.write(left, "cut off")
	}
	s.write(filepath.Join(s.node, ".kubelet.12"), "another's")
	if err := os.MkdirAll(beside(kubelet)+".56/another's", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.at.discard(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(beside(kubelet) + ".56"); err != nil {
		t.Fatal(err)
	}
	s.want("discarded", map[string]string{".kubelet.12": "another's", "kubelet": "old", "other": "stays"})
}

// TestResolve: which links are followed.
func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for folder, mode := range map[string]os.FileMode{"root": 0o755, "open": 0o777, "sticky": 0o777 | os.ModeSticky, "open/below": 0o755} {
		if err := os.Mkdir(filepath.Join(dir, "open"), 0o777); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(dir, folder), mode); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(dir, folder), mode); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"root/file": "../open/file", "root/far": dir + "/sticky/one", "sticky/one": "two", "root/round": "round", "open/link": "file",
		"open/below/link": "file", "root/open": "../open",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"root/none": "root/none", "none/at/all": "none/at/all", "root/file": "open/file", "root/far": "sticky/two", "open/none": "open/none",
		"root/open/file": "open/file",
		"root/round":     "", "open/link": "", "open/below/link": "", "root/open/link": "",
	} {
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got, err := resolve(filepath.Join(dir, path)); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
}
