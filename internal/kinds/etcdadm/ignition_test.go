package etcdadm

import (
	"bytes"
	"compress/gzip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	ignition "github.com/flatcar/ignition/config/v2_3"
	"github.com/flatcar/ignition/config/v2_3/types"
	"github.com/vincent-petithory/dataurl"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
)

// readIgnition is what Ignition makes of the data: the config, and the content of its files by their paths.
func readIgnition(t *testing.T, data []byte) (types.Config, map[string]string, map[string]types.File) {
	t.Helper()
	config, report, err := ignition.Parse(data)
	if err != nil || report.String() != "" {
		t.Fatalf("Ignition says %v, %s\n%s", err, report, data)
	}
	contents, files := map[string]string{}, map[string]types.File{}
	for _, f := range config.Storage.Files {
		content, err := dataurl.DecodeString(f.Contents.Source)
		if err != nil {
			t.Fatalf("%s: %v", f.Path, err)
		}
		contents[f.Path], files[f.Path] = string(content.Data), f
	}
	return config, contents, files
}

// TestIgnition: everything of a configuration arrives on a machine with Ignition, too, keys for their owner alone.
func TestIgnition(t *testing.T) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write([]byte("hello\n"))
	_ = w.Close()
	m := joiner(bootstrapv1alpha1.EtcdadmConfigSpec{
		Format:             bootstrapv1alpha1.Ignition,
		PreEtcdadmCommands: []string{"echo \"a: b\" # c", "one\ntwo"}, EtcdadmInstallCommands: []string{"install etcdadm"},
		PostEtcdadmCommands: []string{"after"},
		Files: []bootstrapv1.File{
			{Path: "/etc/x", Content: "x\n", Permissions: "0640", Owner: "anna:etcd", Append: ptr.To(true)},
			{Path: "/etc/bytes", Content: "Caf\xe9\x00"}, {Path: "/etc/packed", Content: packed.String(), Encoding: bootstrapv1.Gzip},
			{Path: "/etc/encoded", Content: "aGk=", Encoding: bootstrapv1.Base64},
		},
		Users: []bootstrapv1.User{{Name: "anna.b", Sudo: "ALL=(ALL) NOPASSWD:ALL", Groups: "a, b", Passwd: "hash",
			SSHAuthorizedKeys: []string{"ssh-ed25519 A"}}},
		NTP:   bootstrapv1.NTP{Servers: []string{"ntp.example", "ntp2.example"}},
		Proxy: bootstrapv1alpha1.ProxySpec{HTTPSProxy: "http://p:3128"},
	})
	data, format, err := Data(m)
	if err != nil || format != bootstrapv1alpha1.Ignition {
		t.Fatalf("%v, format %s", err, format)
	}
	config, contents, files := readIgnition(t, data)
	for path, want := range map[string]string{
		authorityKey: "ca key\n", pkiDir + "ca.crt": "ca\n", clientKey: "client key\n", scriptFile: script, settingsFile: m.settings(),
		"/etc/x": "x\n", "/etc/bytes": "Caf\xe9\x00", "/etc/packed": packed.String(), "/etc/encoded": "hi",
		"/etc/sudoers.d/quorate-anna_b":              "anna.b ALL=(ALL) NOPASSWD:ALL\n",
		"/etc/systemd/timesyncd.conf.d/quorate.conf": "[Time]\nNTP=ntp.example ntp2.example\n",
		commandsFile: "#!/bin/sh\n. /etc/quorate/etcd/proxy.sh\necho \"a: b\" # c\none\ntwo\ninstall etcdadm\n" +
			"/etc/quorate/etcd/bootstrap.sh && mkdir -p /run/cluster-api && echo success >/run/cluster-api/bootstrap-success.complete\nafter\n",
	} {
		if contents[path] != want {
			t.Errorf("%s holds %q, want %q", path, contents[path], want)
		}
	}
	for path, mode := range map[string]int{authorityKey: 0o600, scriptFile: 0o700, commandsFile: 0o700, "/etc/x": 0o640, "/etc/bytes": 0o644,
		"/etc/sudoers.d/quorate-anna_b": 0o440} {
		if got := files[path].Mode; got == nil || *got != mode {
			t.Errorf("%s has the mode %v, want %o", path, got, mode)
		}
	}
	x := files["/etc/x"]
	if !x.Append || x.User.Name != "anna" || x.Group.Name != "etcd" || files["/etc/packed"].Contents.Compression != "gzip" {
		t.Errorf("/etc/x is %+v, /etc/packed %+v", x, files["/etc/packed"])
	}
	u := config.Passwd.Users
	if len(u) != 1 || u[0].Name != "anna.b" || ptr.Deref(u[0].PasswordHash, "") != "hash" ||
		!slices.Equal(u[0].Groups, []types.Group{"a", "b"}) || len(u[0].SSHAuthorizedKeys) != 1 {
		t.Errorf("users are %+v", u)
	}
	units := config.Systemd.Units
	if len(units) != 2 || units[0].Name != unitName || !ptr.Deref(units[0].Enabled, false) || units[1].Name != "systemd-timesyncd.service" ||
		!ptr.Deref(units[1].Enabled, false) {
		t.Errorf("units are %+v", units)
	}
}

// TestIgnitionOnce: the unit begins once in the life of a machine, as cloud-init does, whether it ends well or not.
func TestIgnitionOnce(t *testing.T) {
	for _, line := range []string{"ConditionPathExists=!" + commandsRan, "ExecStartPre=/usr/bin/touch " + commandsRan,
		"ExecStart=" + commandsFile} {
		if !strings.Contains(unitText, "\n"+line+"\n") {
			t.Errorf("the unit has no line %s", line)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		return // the lines say it
	}
	h := newHost(t)
	h.write(unitName, strings.ReplaceAll(unitText, commandsFile, "/bin/true"))
	if out, err := exec.Command(analyze, "verify", "--man=no", "--recursive-errors=no",
		filepath.Join(h.dir, unitName)).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestIgnitionKeys: the private keys leave the data, and nothing else.
func TestIgnitionKeys(t *testing.T) {
	data, _, err := Data(joiner(bootstrapv1alpha1.EtcdadmConfigSpec{Format: bootstrapv1alpha1.Ignition}))
	if err != nil {
		t.Fatal(err)
	}
	_, before, _ := readIgnition(t, data)
	for _, had := range []bool{true, false} {
		without, dropped, err := WithoutKeys(data)
		if err != nil || dropped != had {
			t.Fatalf("dropped %t, %v", dropped, err)
		}
		data = without
	}
	_, after, _ := readIgnition(t, data)
	delete(before, authorityKey)
	delete(before, clientKey)
	if len(before) != len(after) || after[authorityKey] != "" || after[clientKey] != "" {
		t.Errorf("%d files are left of %d", len(after), len(before))
	}
	foreign := []byte(`{"a": "b"}`)
	if got, had, err := WithoutKeys(foreign); had || err != nil || !bytes.Equal(got, foreign) {
		t.Errorf("of other data %q is left, %t, %v", got, had, err)
	}
}

// TestIgnitionRefused: what Ignition does not support is refused.
func TestIgnitionRefused(t *testing.T) {
	for want, spec := range map[string]bootstrapv1alpha1.EtcdadmConfigSpec{
		"spec.users[0].inactive: Forbidden": {Users: []bootstrapv1.User{{Name: "a", Inactive: ptr.To(true)}}},
		"spec.files[0].content: Forbidden":  {Files: []bootstrapv1.File{{Path: "/a", Content: "-", Encoding: bootstrapv1.Base64}}},
		"spec.files[0].path: Forbidden":     {Files: []bootstrapv1.File{{Path: commandsFile, Content: "-"}}},
	} {
		if wrong := Validate(&spec, field.NewPath("spec")); strings.Contains(want, "commands") || len(wrong) > 0 {
			t.Errorf("with cloud-config %v", wrong)
		}
		spec.Format = bootstrapv1alpha1.Ignition
		if wrong := Validate(&spec, field.NewPath("spec")); len(wrong) != 1 || !strings.HasPrefix(wrong[0].Error(), want) {
			t.Errorf("%v, want %s", wrong, want)
		}
	}
}
