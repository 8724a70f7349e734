package drift

import (
	"fmt"
	"strings"
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// TestFiles: which files are changed on a live node, which its upgrade is told of, and that afterwards the record says so. No content is
// shown.
func TestFiles(t *testing.T) {
	file := func(path, content string) bootstrapv1.File { return bootstrapv1.File{Path: path, Content: content} }
	with := func(f bootstrapv1.File, change func(*bootstrapv1.File)) bootstrapv1.File { change(&f); return f }
	appended := func(f *bootstrapv1.File) { f.Append = ptr(true) }
	const audit = "/etc/kubernetes/audit.yaml"
	from := func(key string) func(*bootstrapv1.File) {
		return func(f *bootstrapv1.File) { f.ContentFrom.Secret = bootstrapv1.SecretFileSource{Name: "s", Key: key} }
	}
	list := func(files ...bootstrapv1.File) []bootstrapv1.File { return files }
	for name, test := range map[string]struct {
		was, want []bootstrapv1.File
		replacing string // why it takes another machine, in part; empty: it does not
		files     string // those that an upgrade writes
	}{
		"another content":       {list(file(audit, "hunter2"), file("/b", "b")), list(file(audit, "hunter3"), file("/b", "b")), "", audit},
		"one more":              {list(file("/b", "b")), list(file("/a", "hunter2"), file("/b", "b")), "", "/a"},
		"two, in another order": {list(file("/a", "a"), file("/b", "b")), list(file("/b", "hunter2"), file("/a", "a")), "", "/b"},
		"one less":              {list(file("/a", "hunter2"), file("/b", "b")), list(file("/b", "b")), "files[/a]: ", ""},
		"the order alone": {list(file("/a", "a"), file("/b", "b")), list(file("/b", "b"), file("/a", "a")), "it depends on the file",
			""},
		"its owner": {list(file("/a", "a")), list(with(file("/a", "a"), func(f *bootstrapv1.File) { f.Owner = "me" })), "", "/a"},
		"its permissions": {list(file("/a", "a")), list(with(file("/a", "a"), func(f *bootstrapv1.File) { f.Permissions = "0600" })),
			"", "/a"},
		"no permissions": {list(file("/a", "a")), list(with(file("/a", "a"), func(f *bootstrapv1.File) { f.Permissions = "u+x" })),
			"permissions", ""},
		"set-user-ID": {list(file("/a", "a")), list(with(file("/a", "a"), func(f *bootstrapv1.File) { f.Permissions = "4755" })),
			"permissions", ""},
		"its encoding": {list(file("/a", "a")),
			list(with(file("/a", "YQ=="), func(f *bootstrapv1.File) { f.Encoding = bootstrapv1.Base64 })), "", "/a"},
		"from a secret":      {list(file("/a", "a")), list(with(file("/a", ""), from("k"))), "", "/a"},
		"from another key":   {list(with(file("/a", ""), from("k"))), list(with(file("/a", ""), from("l"))), "", "/a"},
		"appended":           {list(file("/a", "a")), list(with(file("/a", "b"), appended)), "appended", ""},
		"appended before":    {list(with(file("/a", "b"), appended)), list(file("/a", "b")), "appended", ""},
		"one more, appended": {nil, list(with(file("/a", "b"), appended)), "appended", ""},
		"in two pieces":      {list(file("/a", "a")), list(file("/a", "a"), with(file("/a", "b"), appended)), "more than one piece", ""},
		"a template": {list(file("/a", "a")),
			list(with(file("/a", "b"), func(f *bootstrapv1.File) { f.ContentFormat = bootstrapv1.FileContentFormatTemplate })), "first boot", ""},
		"filled in":                 {list(file("/a", "a")), list(file("/a", "{{ ds.meta_data.name }}")), "first boot", ""},
		"kubeadm's":                 {nil, list(file("/etc/kubernetes/pki/ca.crt", "a")), "certificates are renewed there", ""},
		"in a folder with patches":  {nil, list(file("/patches/etcd.yaml", "a")), "kubeadm used it", ""},
		"in another certificateDir": {nil, list(file("/my/pki/ca.crt", "a")), "kubeadm used it", ""},
		"among etcd's data":         {nil, list(file("/my/etcd/member/a", "a")), "it is etcd's", ""},
		"one of two cannot be":      {nil, list(file("/a", "a"), file("/run/a", "a")), "files[/run/a]", "/a"},
		"that stays as it was": {list(with(file("/a", "{{ a }}"), appended), file("/run/b", "b"), file("/c", "c")),
			list(with(file("/a", "{{ a }}"), appended), file("/run/b", "b"), file("/c", "d")), "", "/c"},
	} {
		for _, byInit := range []bool{true, false} {
			at := fmt.Sprintf("%s, made by init %t", name, byInit)
			kcp := controlPlane()
			spec := &kcp.Spec.KubeadmConfigSpec
			spec.ClusterConfiguration.CertificatesDir, spec.ClusterConfiguration.Etcd.Local.DataDir = "/my/pki", "/my/etcd"
			spec.InitConfiguration.Patches.Directory, spec.JoinConfiguration.Patches.Directory = "/patches", "/patches"
			spec.Files = test.was
			m := made(kcp, byInit)
			spec.Files = test.want
			found := Of(kcp, m, now)
			got := found.ReplacingText()
			if (got == "") != (test.replacing == "") || !strings.Contains(got, test.replacing) || !found.OnNode() ||
				strings.Contains(found.String(), "hunter") {
				t.Errorf("%s: %q, want %q; %s", at, got, test.replacing, found)
			}
			g := Goal{}.WithFiles(spec)
			files, known := g.Files(m)
			var paths []string
			for _, f := range files {
				paths = append(paths, f.Path)
			}
			if strings.Join(paths, " ") != test.files || !known {
				t.Errorf("%s: %v, known %t; want %s", at, paths, known, test.files)
			}
			g.RecordFiles(&m.Config.Spec)
			if d := Of(kcp, m, now); d.Outdated() {
				t.Errorf("%s: recorded, and yet %s", at, d)
			}
		}
	}
}

// TestGoalOfFiles: a goal that was read knows which files there were to be and not what they hold, so that what it left is found to differ
// from all that may be wanted.
func TestGoalOfFiles(t *testing.T) {
	kcp := controlPlane()
	spec := &kcp.Spec.KubeadmConfigSpec
	m := made(kcp, true)
	plain := Goal{Version: "v1.36.3"}
	if _, known := plain.Files(m); known {
		t.Error("a goal that says nothing of files knows them")
	}
	if none := plain.WithFiles(&bootstrapv1.KubeadmConfigSpec{}); none.Hash() != plain.Hash() {
		t.Error("without files it is another goal")
	}
	before := spec.DeepCopy()
	first := plain.WithFiles(before)
	spec.Files[0].Content = "hunter3"
	spec.Files = append(spec.Files, bootstrapv1.File{Path: "/c", Content: "c"})
	g := plain.WithFiles(spec)
	if text := g.String(); strings.Contains(text, "hunter") || g.Hash() == first.Hash() || g.Hash() == plain.Hash() {
		t.Errorf("%s", text)
	}
	if _, known := g.Files(Machine{Machine: m.Machine}); known {
		t.Error("files of a machine of which nothing is known")
	}
	read, err := ParseGoal(g.String())
	if err != nil || read.Hash() != g.Hash() {
		t.Fatalf("%+v, %v", read, err)
	}
	plain.RecordFiles(&m.Config.Spec)
	if FileHash(m.Config.Spec.Files[0]) != FileHash(before.Files[0]) {
		t.Error("a goal that says nothing of files changes the record")
	}
	read.RecordFiles(&m.Config.Spec)
	for name, want := range map[string]Goal{"what was before": first, "what was left": g} {
		files, _ := want.Files(m)
		if len(files) != len(want.files.Files)-1 || files[0].Path != "/etc/a" {
			t.Errorf("%s is wanted, and written are %v", name, files)
		}
	}
	if !read.DoubtFiles(&m.Config.Spec) || read.DoubtFiles(before) != true ||
		first.DoubtFiles(made(controlPlane(), true).Config.Spec.DeepCopy()) {
		t.Error("what is in doubt is not told")
	}
}
