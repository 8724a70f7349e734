package etcdadm

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	"github.com/quorate/quorate/internal/local/cloudinit"
)

func joiner(spec bootstrapv1alpha1.EtcdadmConfigSpec) Member {
	return Member{
		Name: "etcd-2", Role: Join, Endpoints: []string{"https://10.0.0.1:2379", "https://10.0.0.2:2379"},
		SANs:      []string{"10.0.0.9", "etcd.example"},
		Authority: KeyPair{Cert: []byte("ca\n"), Key: []byte("ca key\n")}, Client: KeyPair{Cert: []byte("client\n"), Key: []byte("client key\n")},
		Spec: &spec,
	}
}

// read is what a machine makes of the data.
func read(t *testing.T, m Member) *cloudinit.Config {
	t.Helper()
	data, err := CloudConfig(m)
	if err != nil {
		t.Fatal(err)
	}
	config, err := cloudinit.Parse(data, cloudinit.Meta{Name: m.Name})
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	return config
}

// TestCloudConfig: everything of a configuration arrives on a machine, keys for their owner alone, in the order in which it is needed.
func TestCloudConfig(t *testing.T) {
	c := read(t, joiner(bootstrapv1alpha1.EtcdadmConfigSpec{
		PreEtcdadmCommands: []string{"echo \"a: b\" # c", "one\ntwo"}, EtcdadmInstallCommands: []string{"install etcdadm"},
		PostEtcdadmCommands: []string{"after"},
		Files: []bootstrapv1.File{{Path: "/etc/x", Content: "x\n\ty\n", Permissions: "0640", Owner: "root:root",
			Append: ptr.To(true)}},
		Users: []bootstrapv1.User{{Name: "anna", Sudo: "ALL=(ALL) NOPASSWD:ALL", LockPassword: ptr.To(true),
			SSHAuthorizedKeys: []string{"ssh-ed25519 A"}}},
		NTP:   bootstrapv1.NTP{Enabled: ptr.To(true), Servers: []string{"ntp.example"}},
		Proxy: bootstrapv1alpha1.ProxySpec{HTTPSProxy: "http://p:3128", NoProxy: []string{"10.0.0.0/8", "example"}},
	}))
	var commands []string
	for _, r := range c.Runcmd {
		commands = append(commands, r.String())
	}
	want := []string{
		". /etc/quorate/etcd/proxy.sh", "echo \"a: b\" # c", "one\ntwo", "install etcdadm",
		"/etc/quorate/etcd/bootstrap.sh && mkdir -p /run/cluster-api && echo success >" + cloudinit.Sentinel, "after",
	}
	if !slices.Equal(commands, want) {
		t.Errorf("commands %q, want %q", commands, want)
	}
	files := map[string]cloudinit.File{}
	for _, f := range c.Files {
		files[f.Path] = f
		secret := strings.HasSuffix(f.Path, ".key") || f.Path == settingsFile || f.Path == proxyFile
		if secret && f.Mode&0o077 != 0 {
			t.Errorf("%s has mode %o", f.Path, f.Mode)
		}
	}
	for path, content := range map[string]string{
		"/etc/etcd/pki/ca.crt": "ca\n", "/etc/etcd/pki/ca.key": "ca key\n", "/etc/etcd/pki/etcdctl-etcd-client.key": "client key\n",
		"/etc/etcd/pki/etcdctl-etcd-client.crt": "client\n", "/etc/x": "x\n\ty\n", scriptFile: script,
		proxyFile: "export HTTPS_PROXY='http://p:3128' https_proxy='http://p:3128'\nexport NO_PROXY='10.0.0.0/8,example' " +
			"no_proxy='10.0.0.0/8,example'\n",
	} {
		if got := string(files[path].Content); got != content {
			t.Errorf("%s holds %q, want %q", path, got, content)
		}
	}
	if len(c.Users) != 1 || c.Users[0].Name != "anna" || !c.Users[0].Locked || c.NTP == nil || !files["/etc/x"].Append {
		t.Errorf("users %+v, ntp %+v, files %+v", c.Users, c.NTP, files["/etc/x"])
	}
}

// TestSettings: etcdadm is called with what was asked for, each flag by the command that knows it, whatever a value holds.
func TestSettings(t *testing.T) {
	m := joiner(bootstrapv1alpha1.EtcdadmConfigSpec{Version: "v3.5.35", ReleaseURL: "https://mirror/$(x)", EtcdadmArgs: map[string]string{
		"install-dir": "/opt/it's", "disk-priorities": "Nice=-10,IOSchedulingPriority=2", "download-connect-timeout": "30s", "log-level": "debug",
		"server-cert-extra-sans": "a.example,10.1.1.1",
	}})
	dir := t.TempDir()
	// A program that says how it was called stands where etcdadm would.
	if err := os.WriteFile(filepath.Join(dir, "etcdadm"), []byte("#!/bin/sh\nfor a; do printf '%s|' \"$a\"; done\necho\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	text := m.settings() + "etcdadm_download; etcdadm_init; etcdadm_join https://e; echo $ROLE $NAME $VERSION $ENDPOINTS $CONNECT_SECONDS " +
		"\"$RELEASE_URL\"\n"
	cmd := exec.Command("/bin/sh", "-euc", text)
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	named := "--name|etcd-2|--version|3.5.35|--install-dir|/opt/it's|--disk-priorities|Nice=-10|--disk-priorities|IOSchedulingPriority=2|" +
		"--server-cert-extra-sans|a.example,10.1.1.1|--server-cert-extra-sans|10.0.0.9,etcd.example|--log-level|debug|" +
		"--release-url|https://mirror/$(x)|"
	want := "download|--version|3.5.35|--release-url|https://mirror/$(x)|--download-connect-timeout|30s|--log-level|debug|\n" +
		"init|" + named + "--download-connect-timeout|30s|\n" +
		"join|https://e|" + named + "\n" +
		"join etcd-2 3.5.35 https://10.0.0.1:2379 https://10.0.0.2:2379 30 https://mirror/$(x)\n"
	if string(out) != want {
		t.Errorf("called\n%swant\n%s", out, want)
	}
}

// TestBytes: a file from a secret may hold any bytes, and arrives as it is.
func TestBytes(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte("hello\n"))
	_ = w.Close()
	for name, test := range map[string]struct {
		file bootstrapv1.File
		want string
	}{
		"Latin-1":     {bootstrapv1.File{Content: "Caf\xe9\n"}, "Caf\xe9\n"},
		"UTF-8":       {bootstrapv1.File{Content: "Café\r\n\x00\u0085"}, "Café\r\n\x00\u0085"},
		"gzip":        {bootstrapv1.File{Content: packed.String(), Encoding: bootstrapv1.Gzip}, "hello\n"},
		"not encoded": {bootstrapv1.File{Content: packed.String()}, packed.String()},
		"base64":      {bootstrapv1.File{Content: "aGk=", Encoding: bootstrapv1.Base64}, "hi"},
		"gzip and base64": {bootstrapv1.File{Content: base64.StdEncoding.EncodeToString(packed.Bytes()), Encoding: bootstrapv1.GzipBase64},
			"hello\n"},
	} {
		t.Run(name, func(t *testing.T) {
			test.file.Path = "/etc/motd"
			c := read(t, joiner(bootstrapv1alpha1.EtcdadmConfigSpec{Files: []bootstrapv1.File{test.file}}))
			got := "no file"
			for _, f := range c.Files {
				if f.Path == test.file.Path {
					got = string(f.Content)
				}
			}
			if got != test.want {
				t.Errorf("the machine gets %q, want %q", got, test.want)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	from := func(name string) bootstrapv1.FileSource {
		return bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: name, Key: "k"}}
	}
	args := func(name, value string) bootstrapv1alpha1.EtcdadmConfigSpec {
		return bootstrapv1alpha1.EtcdadmConfigSpec{EtcdadmArgs: map[string]string{name: value}}
	}
	files := func(all ...bootstrapv1.File) bootstrapv1alpha1.EtcdadmConfigSpec {
		return bootstrapv1alpha1.EtcdadmConfigSpec{Files: all}
	}
	for _, test := range []struct {
		spec bootstrapv1alpha1.EtcdadmConfigSpec
		want string // of the only error; empty: there is none
	}{
		{bootstrapv1alpha1.EtcdadmConfigSpec{}, ""},
		{bootstrapv1alpha1.EtcdadmConfigSpec{Version: "3.6.16", EtcdadmArgs: map[string]string{"version": "v3.6.16"}}, ""},
		{bootstrapv1alpha1.EtcdadmConfigSpec{Version: "v3.5.35"}, ""},
		{bootstrapv1alpha1.EtcdadmConfigSpec{Version: "3.4.9"}, "spec.version: Invalid value: \"3.4.9\": a version of etcd from 3.5 on"},
		{bootstrapv1alpha1.EtcdadmConfigSpec{Version: "3.6.1", EtcdadmArgs: map[string]string{"version": "3.6.2"}},
			"spec.etcdadmArgs[version]: Invalid value: \"3.6.2\": the field beside"},
		{bootstrapv1alpha1.EtcdadmConfigSpec{ReleaseURL: "ftp://a"}, "spec.releaseURL: Invalid value"},
		{bootstrapv1alpha1.EtcdadmConfigSpec{ReleaseURL: "https://a/b?c=d&e"}, "spec.releaseURL: Invalid value"},
		{bootstrapv1alpha1.EtcdadmConfigSpec{Format: "toml"}, "spec.format: Unsupported value"},
		{args("name", "x"), "spec.etcdadmArgs[name]: Forbidden: a member has the name of its Machine"},
		{args("certs-dir", "x"), "spec.etcdadmArgs[certs-dir]: Forbidden"},
		{args("init-system", "x"), "spec.etcdadmArgs[init-system]: Unsupported value: \"init-system\": supported values: \"disk-priorities\""},
		{args("server-cert-extra-sans", "a.example,10.0.0.1,*.b.example"), ""},
		{args("server-cert-extra-sans", "a b"), "spec.etcdadmArgs[server-cert-extra-sans]: Invalid value"},
		{args("install-dir", "/opt/bin/"), ""},
		{args("install-dir", "opt"), "spec.etcdadmArgs[install-dir]: Invalid value"},
		{args("disk-priorities", "Nice=-10,IOSchedulingClass=best-effort"), ""},
		{args("disk-priorities", "Nice=\"1\""), "spec.etcdadmArgs[disk-priorities]: Invalid value"},
		{args("download-connect-timeout", "30"), "spec.etcdadmArgs[download-connect-timeout]: Invalid value"},
		{args("log-level", "trace"), "spec.etcdadmArgs[log-level]: Invalid value"},
		{files(bootstrapv1.File{Path: "/a", Content: "x"}, bootstrapv1.File{Path: "/b", ContentFrom: from("s")}), ""},
		{files(bootstrapv1.File{Path: "a", Content: "x"}), "spec.files[0].path: Invalid value"},
		{files(bootstrapv1.File{Path: "/etc/etcd/pki/../pki/ca.crt", Content: "x"}), "spec.files[0].path: Forbidden"},
		{files(bootstrapv1.File{Path: "/a", Content: "x"}, bootstrapv1.File{Path: "//a", Content: "y"}), "spec.files[1].path: Duplicate value"},
		{files(bootstrapv1.File{Path: "/a", Content: "x", ContentFrom: from("s")}), "spec.files[0]: Invalid value"},
		{files(bootstrapv1.File{Path: "/a", Content: "x", Permissions: "rw-r--r--"}), "spec.files[0].permissions: Invalid value"},
		{files(bootstrapv1.File{Path: "/a", Content: "x", Permissions: "0640"}), ""},
		{files(bootstrapv1.File{Path: "/a", Content: "x", ContentFormat: "Template"}), "spec.files[0].contentFormat: Unsupported value"},
		{bootstrapv1alpha1.EtcdadmConfigSpec{Users: []bootstrapv1.User{{Name: "a", Passwd: "hash",
			PasswdFrom: bootstrapv1.PasswdSource{Secret: bootstrapv1.SecretPasswdSource{Name: "s"}}}}},
			"spec.users[0]: Forbidden: passwd and passwdFrom"},
		{bootstrapv1alpha1.EtcdadmConfigSpec{Proxy: bootstrapv1alpha1.ProxySpec{HTTPSProxy: "socks://user:secret@a"}},
			"spec.proxy.httpsProxy: Forbidden: a URL with http or https is accepted"},
	} {
		wrong := Validate(&test.spec, field.NewPath("spec"))
		if (len(wrong) > 0) != (test.want != "") || len(wrong) > 1 || len(wrong) == 1 && !strings.HasPrefix(wrong[0].Error(), test.want) {
			t.Errorf("%+v: %v, want %q", test.spec, wrong, test.want)
		}
	}
}

// TestWithoutKeys: the authority's key and the client's go, and nothing else; also where an earlier version of Quorate dropped the
// authority's alone. A second time nothing goes, and data of others stay as they are.
func TestWithoutKeys(t *testing.T) {
	spec := bootstrapv1alpha1.EtcdadmConfigSpec{}
	data, err := CloudConfig(Member{
		Name: "e-1", Role: Init, Spec: &spec, Authority: KeyPair{Cert: []byte("ca\n"), Key: []byte("ca key\n")},
		Client: KeyPair{Cert: []byte("client\n"), Key: []byte("client key\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := string(data)
	authority := "- content: |\n    ca key\n  path: /etc/etcd/pki/ca.key\n  permissions: \"0600\"\n"
	ours := "- content: |\n    client key\n  path: /etc/etcd/pki/etcdctl-etcd-client.key\n  permissions: \"0600\"\n"
	for _, key := range []string{authority, ours} {
		if !strings.Contains(want, key) {
			t.Fatalf("the data have no\n%s:\n%s", key, want)
		}
		want = strings.Replace(want, key, "", 1)
	}
	got, had, err := WithoutKeys(data)
	if err != nil || !had || string(got) != want {
		t.Errorf("%t, %v:\n%s", had, err, got)
	}
	earlier, had, err := WithoutKeys([]byte(strings.Replace(string(data), authority, "", 1)))
	if err != nil || !had || string(earlier) != want {
		t.Errorf("of data without the authority's key: %t, %v:\n%s", had, err, earlier)
	}
	for name, other := range map[string][]byte{"once more": got, "others'": []byte("## template: jinja\n#cloud-config\nother: {}\n"),
		"none": nil} {
		if left, had, err := WithoutKeys(other); err != nil || had || string(left) != string(other) {
			t.Errorf("%s: %t, %v:\n%s", name, had, err, left)
		}
	}
}
