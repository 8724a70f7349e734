package upgrader

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/quorate/quorate/internal/core/steps"
)

// scene is a node's files below a folder, and the upgrader's own.
type scene struct {
	t    *testing.T
	dir  string
	at   layout
	node string
}

func newScene(t *testing.T) *scene {
	t.Helper()
	dir := t.TempDir()
	return &scene{t: t, dir: dir, at: layout{dir: filepath.Join(dir, "own"), root: filepath.Join(dir, "root")},
		node: filepath.Join(dir, "node")}
}

func (s *scene) write(path, text string) {
	s.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// read returns all files of the node, also those that wait beside others.
func (s *scene) read() map[string]string {
	s.t.Helper()
	all := map[string]string{}
	entries, err := os.ReadDir(s.node)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(s.node, e.Name()))
		if err != nil {
			s.t.Fatal(err)
		}
		all[e.Name()] = string(data)
	}
	return all
}

func (s *scene) want(when string, want map[string]string) {
	s.t.Helper()
	if got := s.read(); fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s: %v, want %v", when, got, want)
	}
}

// staged is a node with two files, of which one is replaced, and a new one.
func staged(t *testing.T) *scene {
	s := newScene(t)
	s.write(s.node+"/kubelet", "old")
	s.write(s.node+"/other", "stays")
	for name, text := range map[string]string{"kubelet": "new", "added": "new"} {
		s.write(filepath.Join(s.at.stage(), s.node, name), text)
	}
	s.write(filepath.Join(s.at.saved(), s.node, "kubelet"), "old")
	return s
}

// TestReplaceAndRestore: files wait beside those that they replace, and are taken away again; each part can be repeated, also after a cut.
func TestReplaceAndRestore(t *testing.T) {
	s := staged(t)
	before := map[string]string{"kubelet": "old", "other": "stays"}
	after := map[string]string{"kubelet": "new", "other": "stays", "added": "new"}
	for range 2 {
		if err := s.at.prepare(); err != nil {
			t.Fatal(err)
		}
		s.want("prepared", map[string]string{
			"kubelet": "old", "other": "stays", ".kubelet.quorate-upgrade": "new", ".added.quorate-upgrade": "new",
		})
	}
	for range 2 {
		if err := s.at.replace(); err != nil {
			t.Fatal(err)
		}
		s.want("replaced", after)
	}
	for range 2 {
		if err := s.at.restore(); err != nil {
			t.Fatal(err)
		}
		s.want("restored", before)
	}
	if err := s.at.prepare(); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(beside(s.node+"/kubelet"), s.node+"/kubelet"); err != nil {
		t.Fatal(err)
	}
	if err := s.at.replace(); err != nil {
		t.Fatal(err)
	}
	s.want("replaced after a cut", after)
	if err := s.at.restore(); err != nil {
		t.Fatal(err)
	}
	if err := s.at.prepare(); err != nil {
		t.Fatal(err)
	}
	s.write(beside(beside(s.node+"/kubelet"))+".part", "ne") // a copy was cut off
	if err := s.at.restore(); err != nil {
		t.Fatal(err)
	}
	s.want("restored before anything was replaced", before)
}

// TestReplaceKeepsPermissions: keys stay secret, programs can be run.
func TestReplaceKeepsPermissions(t *testing.T) {
	s := staged(t)
	if err := os.Chmod(filepath.Join(s.at.stage(), s.node, "kubelet"), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := s.at.prepare(); err != nil {
		t.Fatal(err)
	}
	if err := s.at.replace(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"kubelet": 0o750, "added": 0o600} {
		if info, err := os.Stat(filepath.Join(s.node, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestSame(t *testing.T) {
	s := newScene(t)
	for name, text := range map[string]string{"a": "text", "b": "text", "c": "texT", "d": "longer"} {
		s.write(s.node+"/"+name, text)
	}
	for other, want := range map[string]bool{"b": true, "c": false, "d": false, "none": false} {
		if got, err := same(s.node+"/a", s.node+"/"+other); got != want || err != nil {
			t.Errorf("a and %s: %t, %v", other, got, err)
		}
	}
}

// TestMirrored: what a cut left of a copy is no file of the node.
func TestMirrored(t *testing.T) {
	s := newScene(t)
	s.write(s.node+"/etc/a", "")
	s.write(s.node+"/etc/.b.quorate-upgrade.part", "")
	if got, err := mirrored(s.node); fmt.Sprint(got) != "[/etc/a]" || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := mirrored(s.node + "/none"); len(got) != 0 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// TestJournal: what is written is read; without a file nothing is remembered; what cannot be read is an error.
func TestJournal(t *testing.T) {
	s := newScene(t)
	if j, err := s.at.loadJournal(); !reflect.DeepEqual(j, steps.Journal{}) || err != nil {
		t.Errorf("%+v, %v", j, err)
	}
	want := steps.Journal{Wanted: steps.Wanted{ID: "a", Attempt: 1, Node: "n"}, Phase: steps.Proving, Starts: 2, OnlyMember: true}
	if err := s.at.saveJournal(want); err != nil {
		t.Fatal(err)
	}
	if j, err := s.at.loadJournal(); !reflect.DeepEqual(j, want) || err != nil {
		t.Errorf("%+v, %v", j, err)
	}
	s.write(s.at.work()+"/stage/x", "")
	s.write(s.at.dir+"/.state.json.123", "{") // what a cut leaves while the journal is written
	if err := s.at.clear(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(s.at.dir + "/*"); fmt.Sprint(left) != fmt.Sprint([]string{s.at.journalFile()}) || err != nil {
		t.Errorf("cleared: %v, %v", left, err)
	}
	if left, err := filepath.Glob(s.at.dir + "/.*"); len(left) > 0 || err != nil {
		t.Errorf("cleared: %v, %v", left, err)
	}
	s.write(s.at.journalFile(), "{")
	if _, err := s.at.loadJournal(); err == nil {
		t.Error("half a journal is read")
	}
}

// TestAside: the data of each failed upgrade have a place of their own, and after a cut it is the same one.
func TestAside(t *testing.T) {
	first := steps.Wanted{ID: "u1", Attempt: 1}
	again, other := steps.Wanted{ID: "u1", Attempt: 2}, steps.Wanted{ID: "u2", Attempt: 1}
	names := map[string]bool{aside("/d/etcd", first): true, aside("/d/etcd", again): true, aside("/d/etcd", other): true}
	if len(names) != 3 || !names["/d/etcd.before-restore-u1-1"] {
		t.Errorf("%v", names)
	}
}

// TestMoveAside: the data of before are kept, also when the snapshot is restored a second time.
func TestMoveAside(t *testing.T) {
	s := newScene(t)
	data, aside := s.node+"/etcd", s.node+"/etcd.before-restore"
	s.write(data+"/member", "original")
	if err := moveAside(data, aside); err != nil {
		t.Fatal(err)
	}
	s.write(data+"/member", "restored")
	if err := moveAside(data, aside); err != nil {
		t.Fatal(err)
	}
	if kept, err := os.ReadFile(aside + "/member"); string(kept) != "original" || err != nil {
		t.Errorf("%s, %v", kept, err)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if err := moveAside(data, aside); err != nil {
		t.Errorf("once more, after a cut: %v", err)
	}
}
