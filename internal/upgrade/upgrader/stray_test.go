package upgrader

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoSecondManifests: a copy of a component's manifest in the kubelet's folder is named before anything is begun; a user's own static
// pod is none, whatever its file is called.
func TestNoSecondManifests(t *testing.T) {
	const own = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME, namespace: kube-system}\nspec: {containers: [{name: a, image: b}]}\n"
	s := newScene(t)
	s.kubeadmNode("ipv4")
	etcd, err := os.ReadFile(s.at.onNode(etcdManifest))
	if err != nil {
		t.Fatal(err)
	}
	dir := s.at.onNode(manifestDir)
	for name, test := range map[string]struct{ file, text, want string }{
		"a copy":               {"etcd.yaml.bak", string(etcd), manifestDir + "/etcd.yaml.bak is a second manifest of etcd"},
		"one without a suffix": {"old-etcd", string(etcd), "old-etcd is a second manifest of etcd"},
		"another's name": {"mine.yaml", strings.ReplaceAll(own, "NAME", "kube-scheduler"),
			"mine.yaml is a second manifest of kube-scheduler"},
		"hidden":               {".etcd.yaml.swp", string(etcd), ""},
		"kube-vip":             {"kube-vip.yaml", strings.ReplaceAll(own, "NAME", "kube-vip"), ""},
		"of another namespace": {"mine.yaml", strings.NewReplacer("NAME", "etcd", "kube-system", "mine").Replace(own), ""},
		"no manifest":          {"README", "not a pod", ""},
	} {
		s.write(filepath.Join(dir, test.file), test.text)
		n := &node{layout: s.at}
		if err := n.noSecondManifests(); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
		if err := os.Remove(filepath.Join(dir, test.file)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir+"/backup", 0o755); err != nil {
		t.Fatal(err)
	}
	s.write(dir+"/backup/etcd.yaml", string(etcd))
	if err := os.Symlink("nowhere", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if err := (&node{layout: s.at}).noSecondManifests(); err != nil {
		t.Errorf("a folder, and a link to nothing: %v", err)
	}
}
