package upgrader

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/cluster/staticpod"
	"github.com/quorate/quorate/internal/core/steps"
)

// kubeadmNode has a scene's node be one for which kubeadm wrote the manifests in testdata/nodes.
func (s *scene) kubeadmNode(name string) {
	s.t.Helper()
	if err := os.RemoveAll(s.at.root); err != nil {
		s.t.Fatal(err)
	}
	if err := os.CopyFS(s.at.root, os.DirFS(filepath.Join("testdata", "nodes", name))); err != nil {
		s.t.Fatal(err)
	}
}

// TestLook: where a node's components are is read from the manifests that kubeadm wrote for it.
func TestLook(t *testing.T) {
	member := func(url, certificates, data string) staticpod.Member {
		return staticpod.Member{URL: url, CA: certificates + "/ca.crt", Cert: certificates + "/healthcheck-client.crt", Key: certificates +
			"/healthcheck-client.key", DataDir: data}
	}
	const pki, data = "/etc/kubernetes/pki", "/var/lib/etcd"
	s := newScene(t)
	for name, want := range map[string]found{
		"ipv4":         {pki, "10.0.0.11", member("https://127.0.0.1:2379", pki+"/etcd", data), ""},
		"ipv6":         {pki, "fd00::11", member("https://[::1]:2379", pki+"/etcd", data), ""},
		"dual":         {pki, "fd00::11", member("https://[::1]:2379", pki+"/etcd", data), ""},
		"certificates": {"/etc/kubernetes/ssl", "10.0.0.11", member("https://127.0.0.1:2379", "/etc/kubernetes/ssl/etcd", "/data/etcd"), ""},
		"listens":      {pki, "10.0.0.11", member("https://127.0.0.1:2379", pki+"/etcd", data), ""},
		"external":     {pki, "10.0.0.11", staticpod.Member{}, ""},
	} {
		s.kubeadmNode(name)
		if got, err := s.at.look(); got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
	s.kubeadmNode("certificates")
	if err := os.Remove(filepath.Join(s.at.onNode(manifestDir), apiServer+".yaml")); err != nil {
		t.Fatal(err)
	}
	if got, err := s.at.look(); got.certificates != "/etc/kubernetes/ssl" || got.address != "" || err != nil {
		t.Errorf("etcd alone: %+v, %v", got, err)
	}
	s.at.root = s.dir + "/worker"
	if got, err := s.at.look(); got != (found{certificates: pki}) || err != nil {
		t.Errorf("a worker: %+v, %v", got, err)
	}
}

// TestEtcdctl: the node's own member is asked where it listens, as the client whose certificate kubeadm made for that, wherever it is.
func TestEtcdctl(t *testing.T) {
	s := newScene(t)
	s.program(s.at.programs()+"/etcdctl", "")
	s.write(s.at.programs()+"/etcdctl", "#!/bin/sh\necho $ETCDCTL_ENDPOINTS $ETCDCTL_CACERT $ETCDCTL_CERT $ETCDCTL_KEY $*\n")
	for name, want := range map[string]string{
		"ipv4": "https://127.0.0.1:2379 P/pki/etcd/ca.crt P/pki/etcd/healthcheck-client.crt P/pki/etcd/healthcheck-client.key " +
			"endpoint health",
		"ipv6": "https://[::1]:2379 P/pki/etcd/ca.crt P/pki/etcd/healthcheck-client.crt P/pki/etcd/healthcheck-client.key endpoint health",
		"certificates": "https://127.0.0.1:2379 P/ssl/etcd/ca.crt P/ssl/etcd/healthcheck-client.crt P/ssl/etcd/healthcheck-client.key " +
			"endpoint health",
	} {
		s.kubeadmNode(name)
		got, err := s.at.etcdctl(t.Context(), "endpoint", "health")
		if want = strings.ReplaceAll(want, "P/", "/etc/kubernetes/"); strings.TrimSpace(got) != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
	s.kubeadmNode("external")
	if got, err := s.at.etcdctl(t.Context(), "endpoint", "health"); err == nil || !strings.Contains(err.Error(), "--listen-client-urls") {
		t.Errorf("without a member: %s, %v", got, err)
	}
}

// TestSnapshotOfSilentMember: a member that does not answer is no reason to wait until the step is cut off.
func TestSnapshotOfSilentMember(t *testing.T) {
	s := newScene(t)
	s.kubeadmNode("ipv6")
	s.program(s.at.programs()+"/etcdutl", "")
	s.program(s.at.programs()+"/etcdctl", "")
	s.write(s.at.programs()+"/etcdctl", "#!/bin/sh\necho $* >>"+s.dir+
		"/asked\n[ \"$1\" != endpoint ] || { echo context deadline exceeded; exit 1; }\n")
	n := &node{layout: s.at, out: &bytes.Buffer{}}
	_, err := n.saveEtcd(t.Context())
	asked, _ := os.ReadFile(s.dir + "/asked")
	if err == nil || !strings.Contains(err.Error(), "taking a snapshot of etcd") || string(asked) != "endpoint health\n" {
		t.Errorf("asked %q, %v", asked, err)
	}
}

// TestHolds: the node's own folders are held from the user's files where they are on this node.
func TestHolds(t *testing.T) {
	s := newScene(t)
	for name, wants := range map[string]map[string]string{
		"certificates": {"/etc/kubernetes/ssl/ca.crt": "certificates", "/data/etcd/member/x": "etcd's", "/etc/kubernetes/pki/a": "certificates",
			"/data/etcd2": ""},
		"external": {"/data/etcd/member/x": "", "/etc/kubernetes/ssl/ca.crt": "", "/var/lib/etcd/x": "etcd's"},
	} {
		s.kubeadmNode(name)
		held, err := (&node{layout: s.at}).holds()
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range wants {
			if got := held(path); (got == "") != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%s: %s: %q, want %q", name, path, got, want)
			}
		}
	}
}

// TestStageRenewed: a renewed certificate behind a link takes the place of the file, and the link stays.
func TestStageRenewed(t *testing.T) {
	s := newScene(t)
	root, file, link := s.dir+"/renew", s.node+"/real.crt", s.node+"/linked.crt"
	s.write(file, "old")
	if err := os.Symlink("real.crt", link); err != nil {
		t.Fatal(err)
	}
	s.write(filepath.Join(root, link), "new")
	n := &node{layout: s.at, out: &bytes.Buffer{}}
	if renewed, err := n.stageRenewed(root, []string{link}); renewed != 1 || err != nil {
		t.Errorf("%d, %v", renewed, err)
	}
	staged, err := mirrored(s.at.stage())
	if err != nil || !slices.Equal(staged, []string{file}) {
		t.Errorf("staged %q, %v, want %s", staged, err, file)
	}
}

// TestProbeAddress: a probe without a host is for the pod's address, which is the node's, of whatever family.
func TestProbeAddress(t *testing.T) {
	s := newScene(t)
	for name, want := range map[string]string{"ipv4": "https://10.0.0.11:6443/readyz", "ipv6": "https://[fd00::11]:6443/readyz"} {
		s.kubeadmNode(name)
		f, err := s.at.look()
		if err != nil {
			t.Fatal(err)
		}
		p, err := s.at.manifest(apiServer)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{p.Spec.Containers[0].ReadinessProbe.HTTPGet.Host, ""} {
			p.Spec.Containers[0].ReadinessProbe.HTTPGet.Host = host
			if got, err := probe(p, f.address); got != want || err != nil {
				t.Errorf("%s, host %q: %s, %v, want %s", name, host, got, err, want)
			}
		}
	}
}

// TestCRISocket: the runtime is the one that the kubelet is told of, wherever it is told; kubeadm and ctr are told of it too.
func TestCRISocket(t *testing.T) {
	const containerd, k3s = "unix:///run/containerd/containerd.sock", "unix:///run/k3s/containerd/containerd.sock"
	for name, test := range map[string]struct{ flags, config, instance, want string }{
		"nowhere":                 {"", "", "", ""},
		"a flag":                  {flagsFile("--v=1", "--container-runtime-endpoint="+containerd), "", "", containerd},
		"a flag without a scheme": {flagsFile("--container-runtime-endpoint /run/containerd/containerd.sock"), "", "", containerd},
		"a quoted flag":           {flagsFile(`--container-runtime-endpoint="` + containerd + `"`), "", "", containerd},
		"the configuration":       {flagsFile("--v=1"), "kind: KubeletConfiguration\ncontainerRuntimeEndpoint: " + k3s + "\n", "", k3s},
		"that of the node":        {flagsFile(""), "kind: KubeletConfiguration\n", "containerRuntimeEndpoint: " + k3s + "\n", k3s},
		"the user's flag counts":  {flagsFile("--container-runtime-endpoint=" + containerd), "", "", k3s},
		"the default is there":    {flagsFile(""), "", "", containerd},
		"the flag counts": {flagsFile("--container-runtime-endpoint=" + containerd), "containerRuntimeEndpoint: " + k3s + "\n", "",
			containerd},
	} {
		s := newScene(t)
		s.kubeadmNode("ipv4")
		for file, text := range map[string]string{kubeletFlags: test.flags, kubeletConfig: test.config, kubeletPatched: test.instance} {
			if text != "" {
				s.write(s.at.onNode(file), text)
			}
		}
		switch name {
		case "the user's flag counts":
			s.write(s.at.onNode("/etc/default/kubelet"), "KUBELET_EXTRA_ARGS=--container-runtime-endpoint="+k3s+"\n")
		case "the default is there":
			s.write(s.at.onNode(defaultSocket), "")
		}
		s.program(s.at.programs()+"/ctr", "")
		for _, kind := range []steps.NodeType{steps.ControlPlane, steps.Worker} {
			n := &node{layout: s.at, wanted: steps.Wanted{Node: "cp1", Type: kind}}
			c, err := n.initConfiguration()
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := c["nodeRegistration"].(map[string]any)["criSocket"].(string); got != test.want {
				t.Errorf("%s, %s: kubeadm is told of %q, want %q", name, kind, got, test.want)
			}
		}
		argv, err := s.at.ctr("version")
		want := []string{s.at.programs() + "/ctr", "version"}
		if test.want != "" {
			want = slices.Insert(want, 1, "--address", strings.TrimPrefix(test.want, "unix://"))
		}
		if !slices.Equal(argv, want) || err != nil {
			t.Errorf("%s: %q, %v, want %q", name, argv, err, want)
		}
	}
}

// TestCredentialFiles: certificates are renewed wherever kubeadm has them, also behind links, which stay links.
func TestCredentialFiles(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"ssl/ca.crt", "ssl/etcd/ca.crt", "elsewhere/apiserver.crt", "other/deep/a.key"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"pki": "ssl", "ssl/apiserver.crt": "../elsewhere/apiserver.crt", "ssl/more": "../other",
		"ssl/dangling": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, root := range []string{"ssl", "pki"} {
		files, err := credentialFiles(filepath.Join(dir, root))
		if err != nil {
			t.Fatal(err)
		}
		files = slices.DeleteFunc(files, func(f string) bool { return !strings.HasPrefix(f, dir) })
		var want []string
		for _, name := range []string{"apiserver.crt", "ca.crt", "etcd/ca.crt", "more/deep/a.key"} {
			want = append(want, filepath.Join(dir, root, name))
		}
		if slices.Sort(files); !slices.Equal(files, want) {
			t.Errorf("%s: %q, want %q", root, files, want)
		}
	}
	if _, err := credentialFiles(dir + "/none"); err == nil {
		t.Error("a folder that is not there has certificates")
	}
}
