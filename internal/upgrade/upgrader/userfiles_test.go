package upgrader

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/steps"
)

// handed is a node with files of the user's, and an upgrade that is told of others.
func handed(t *testing.T, files map[string]string, wanted ...steps.File) (*scene, *node, *strings.Builder) {
	t.Helper()
	s := newScene(t)
	s.at.image = s.dir + "/image"
	for name, text := range files {
		s.write(s.node+"/"+name, text)
	}
	out := &strings.Builder{}
	n := &node{layout: s.at, out: out, held: func(path string) string { return steps.HeldFile(strings.TrimPrefix(path, s.node)) }}
	for i, f := range wanted {
		f.Path = s.node + "/" + f.Path
		n.wanted.Files = append(n.wanted.Files, f)
		s.write(filepath.Join(s.at.image, steps.FilesDir, steps.FileKey(i)), "hunter"+steps.FileKey(i))
	}
	return s, n, out
}

// TestUserFiles: files come with all else and go back with it, with owner and permissions, and what they hold is never printed. Repeated,
// there is nothing to do.
func TestUserFiles(t *testing.T) {
	has := map[string]string{"changed": "old", "mode": "hunter1", "other": "stays"}
	s, n, out := handed(t, has, steps.File{Path: "changed", Permissions: "0640"}, steps.File{Path: "mode", Permissions: "0755"},
		steps.File{Path: "new/file"})
	if os.Getuid() != 0 {
		t.Skip("owners take root")
	}
	n.wanted.Files[0].Owner = "1234:5678"
	if err := os.Chown(s.node+"/mode", 1, 1); err != nil {
		t.Fatal(err)
	}
	check := func(when, name, text string, mode os.FileMode, wantUID, wantGID int) {
		t.Helper()
		data, err := os.ReadFile(s.node + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(s.node + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		hasUID, hasGID := owners(info)
		if string(data) != text || info.Mode().Perm() != mode || hasUID != wantUID || hasGID != wantGID {
			t.Errorf("%s, %s: %q %v of %d:%d", when, name, data, info.Mode(), hasUID, hasGID)
		}
	}
	for range 2 {
		if staged, err := n.stageFiles(); staged != 3 || err != nil {
			t.Fatalf("%d, %v", staged, err)
		}
	}
	if _, err := n.saveFiles(); err != nil {
		t.Fatal(err)
	}
	if err := s.at.prepare(); err != nil {
		t.Fatal(err)
	}
	check("prepared", "changed", "old", 0o600, 0, 0)
	if err := s.at.replace(); err != nil {
		t.Fatal(err)
	}
	check("replaced", "changed", "hunter0", 0o640, 1234, 5678)
	check("replaced", "mode", "hunter1", 0o755, 0, 0)
	check("replaced", "new/file", "hunter2", 0o644, 0, 0)
	if staged, err := n.stageFiles(); staged != 0 || err != nil {
		t.Errorf("%d are staged again, %v", staged, err)
	}
	if left, err := mirrored(s.at.stage()); len(left) > 0 || err != nil {
		t.Errorf("what is not wanted is staged still: %v, %v", left, err)
	}
	if err := os.Remove(s.node + "/changed"); err != nil {
		t.Fatal(err)
	}
	if err := s.at.restore(); err != nil {
		t.Fatal(err)
	}
	check("restored", "changed", "old", 0o600, 0, 0)
	check("restored", "mode", "hunter1", 0o600, 1, 1)
	if strings.Contains(out.String(), "hunter") {
		t.Errorf("it was printed: %s", out)
	}
}

// TestUserFilesRestored: a file that was not there before is gone after the way back.
func TestUserFilesRestored(t *testing.T) {
	s, n, _ := handed(t, map[string]string{"other": "stays"}, steps.File{Path: "added"})
	if staged, err := n.stageFiles(); staged != 1 || err != nil {
		t.Fatalf("%d, %v", staged, err)
	}
	for _, do := range []func() error{s.at.prepare, s.at.replace} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	s.want("replaced", map[string]string{"other": "stays", "added": "hunter0"})
	if err := s.at.restore(); err != nil {
		t.Fatal(err)
	}
	s.want("restored", map[string]string{"other": "stays"})
}

// TestUserFilesRefused: what cannot be written well is refused before anything is interrupted.
func TestUserFilesRefused(t *testing.T) {
	for name, test := range map[string]struct {
		file steps.File
		want string
	}{
		"no such user":     {steps.File{Path: "a", Owner: "nobody-has-this-name"}, "finding the owner of file"},
		"no such group":    {steps.File{Path: "a", Owner: "root:nobody-has-this-name"}, "finding the owner of file"},
		"no permissions":   {steps.File{Path: "a", Permissions: "rw"}, "must be octal"},
		"too many":         {steps.File{Path: "a", Permissions: "4755"}, "must be octal"},
		"a folder":         {steps.File{Path: "folder"}, "is no file"},
		"a link to none":   {steps.File{Path: "dangling"}, "a link to nothing"},
		"a hidden file":    {steps.File{Path: ".a"}, "with a dot"},
		"the kubelet":      {steps.File{Path: "bin/kubelet"}, "replaces the program"},
		"a link to others": {steps.File{Path: "proc"}, "no file of a disk"},
		"below such a one": {steps.File{Path: "procs/new"}, "no file of a disk"},
	} {
		s, n, _ := handed(t, map[string]string{"folder/a": "", "there": "old"}, test.file)
		for link, to := range map[string]string{"dangling": "/nowhere/at/all", "proc": "/proc/version", "procs": "/proc"} {
			if err := os.Symlink(to, s.node+"/"+link); err != nil {
				t.Fatal(err)
			}
		}
		staged, err := n.stageFiles()
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter") || staged != 0 {
			t.Errorf("%s: %d, %v; want %q", name, staged, err, test.want)
		}
	}
	s, n, _ := handed(t, nil, steps.File{Path: "a"})
	if err := os.RemoveAll(s.at.image); err != nil {
		t.Fatal(err)
	}
	if _, err := n.stageFiles(); err == nil || !strings.Contains(err.Error(), "is to hold") {
		t.Errorf("nothing was handed over: %v", err)
	}
}

// TestUserFileBehindALink: the file that a link leads to is written, and the link stays.
func TestUserFileBehindALink(t *testing.T) {
	s, n, _ := handed(t, map[string]string{"file": "old"}, steps.File{Path: "link"})
	if err := os.Symlink("file", s.node+"/link"); err != nil {
		t.Fatal(err)
	}
	if staged, err := n.stageFiles(); staged != 1 || err != nil {
		t.Fatalf("%d, %v", staged, err)
	}
	for _, do := range []func() error{s.at.prepare, s.at.replace} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	s.want("replaced", map[string]string{"file": "hunter0", "link": "hunter0"})
	if to, err := os.Readlink(s.node + "/link"); to != "file" || err != nil {
		t.Errorf("%s, %v", to, err)
	}
}
