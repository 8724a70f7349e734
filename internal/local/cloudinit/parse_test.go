package cloudinit

import (
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"
)

var meta = Meta{Name: "cp-1", InstanceID: "demo/cp-1", Address: "172.30.1.1"}

func cloudConfig(lines ...string) string { return "#cloud-config\n" + strings.Join(lines, "\n") + "\n" }

func jinja(lines ...string) string { return jinjaHeader + "\n" + cloudConfig(lines...) }

func TestParseFiles(t *testing.T) {
	const zipped = "H4sIAAAAAAAC/8tIBAAOkFE9AgAAAA=="
	for name, c := range map[string]struct {
		lines []string
		want  File
	}{
		"plain": {[]string{"- path: /a", "  content: hi"}, File{Content: []byte("hi"), Mode: 0o644}},
		"block": {[]string{"- path: /a", "  content: |", "    one", "    two"}, File{Content: []byte("one\ntwo\n"), Mode: 0o644}},
		"base64": {[]string{"- path: /a", "  encoding: base64", "  content: |", "    aG", "    k="},
			File{Content: []byte("hi"), Mode: 0o644}},
		"binary":        {[]string{"- path: /a", "  content: !!binary |", "    Y2Fm", "    6Q=="}, File{Content: []byte("caf\xe9"), Mode: 0o644}},
		"b64":           {[]string{"- path: /a", "  encoding: b64", "  content: aGk="}, File{Content: []byte("hi"), Mode: 0o644}},
		"mode":          {[]string{"- path: /a", "  permissions: '0600'"}, File{Content: []byte{}, Mode: 0o600}},
		"mode unquoted": {[]string{"- path: /a", "  permissions: 0640"}, File{Content: []byte{}, Mode: 0o640}},
		"sticky":        {[]string{"- path: /a", "  permissions: '1777'"}, File{Content: []byte{}, Mode: 0o777 | fs.ModeSticky}},
		"owner": {[]string{"- path: /a", "  owner: root:adm", "  append: true", "  defer: yes"},
			File{Content: []byte{}, Mode: 0o644, Owner: "root:adm", Append: true, Deferred: true}},
		"beside units": {[]string{"- path: /a", "  content: /etc/systemd/system/x.service"},
			File{Content: []byte("/etc/systemd/system/x.service"), Mode: 0o644}},
		"null content": {[]string{"- path: /a", "  content:"}, File{Content: []byte{}, Mode: 0o644}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(cloudConfig(append([]string{"write_files:"}, c.lines...)...)), meta)
			c.want.Path = "/a"
			if err != nil || len(got.Files) != 1 || !reflect.DeepEqual(got.Files[0], c.want) {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
	for _, encoding := range bothNames {
		_, err := Parse([]byte(cloudConfig("write_files:", "- path: /a", "  encoding: "+encoding, "  content: "+zipped)), meta)
		if err == nil || !strings.Contains(err.Error(), "gzip") {
			t.Errorf("damaged content in %s: %v", encoding, err)
		}
	}
}

func TestParseGzip(t *testing.T) {
	got, err := Parse([]byte(cloudConfig("write_files:", "- {path: /a, encoding: gz+b64, content: "+gzipped("hi there")+"}")), meta)
	if err != nil || string(got.Files[0].Content) != "hi there" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestParseCommands(t *testing.T) {
	got, err := Parse([]byte(cloudConfig("bootcmd:", "- first", "runcmd:", "- echo $HOME", "- [echo, $HOME, it's]", "- - one", "  - 2")), meta)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, c := range append(got.Bootcmd, got.Runcmd...) {
		lines = append(lines, c.String())
	}
	want := []string{"first", "echo $HOME", `'echo' '$HOME' 'it'\''s'`, "'one' '2'"}
	if !reflect.DeepEqual(lines, want) {
		t.Errorf("%q, want %q", lines, want)
	}
}

func TestParseNothing(t *testing.T) {
	for _, data := range []string{cloudConfig(), cloudConfig("runcmd:", "write_files:", "users:"), "#cloud-config"} {
		if got, err := Parse([]byte(data), meta); err != nil || !reflect.DeepEqual(got, &Config{Meta: meta}) {
			t.Errorf("%q: %+v, %v", data, got, err)
		}
	}
}

func TestParseAccounts(t *testing.T) {
	got, err := Parse([]byte(cloudConfig(
		"groups: [a, b: [x, y]]",
		"users:",
		"- name: ops", "  gecos: O P", "  homedir: /srv/ops", "  shell: /bin/bash", "  passwd: $6$x", "  lock_passwd: false",
		"  primary_group: staff", "  groups: adm, wheel", "  sudo: ALL=(ALL) NOPASSWD:ALL", "  inactive: true", "  uid: 1500",
		"  ssh_authorized_keys:", "  - ssh-ed25519 AAAA",
		"- {name: plain, sudo: false, groups: [x]}", "- {name: bare, groups: null}",
		"ntp:", "  enabled: true", "  servers:", "  - one", "  - two",
		"hostname: other", "preserve_hostname: false",
	)), meta)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Meta: meta, Hostname: "other", Groups: []Group{{Name: "a"}, {Name: "b", Members: []string{"x", "y"}}},
		NTP: &NTP{Enabled: true, Servers: []string{"one", "two"}},
		Users: []User{
			{
				Name: "ops", Gecos: "O P", Home: "/srv/ops", Shell: "/bin/bash", Password: "$6$x", PrimaryGroup: "staff", Inactive: "0",
				Groups: []string{"adm", "wheel"}, Sudo: []string{"ALL=(ALL) NOPASSWD:ALL"}, Keys: []string{"ssh-ed25519 AAAA"}, UID: "1500",
			},
			{Name: "plain", Locked: true, Groups: []string{"x"}},
			{Name: "bare", Locked: true},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

func TestTemplate(t *testing.T) {
	got, err := Parse([]byte(jinja(
		"runcmd:", "- '{{ ds.meta_data.local_hostname }} {{ds.meta_data.hostname}} {{ v1.instance_id }} {{ ds.meta_data.local_ipv4 }}'",
		"- '{% raw %}{{ .Values }}{% endraw %} {# aside #}{one} {'",
	)), meta)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := got.Runcmd[0].Line, got.Runcmd[1].Line; a != "cp-1 cp-1 demo/cp-1 172.30.1.1" || b != "{{ .Values }} {one} {" {
		t.Errorf("%q and %q", a, b)
	}
	plain, err := Parse([]byte(cloudConfig("runcmd:", "- '{{ .Values }}'")), meta)
	if err != nil || plain.Runcmd[0].Line != "{{ .Values }}" {
		t.Errorf("without the template's header: %+v, %v", plain, err)
	}
}

// TestRefused: what a machine cannot carry out, and what is no cloud-config, is named with its line.
func TestRefused(t *testing.T) {
	for name, c := range map[string]struct {
		data, directive string
		line            int
		says            string
	}{
		"disk_setup":    {cloudConfig("runcmd: [a]", "disk_setup:", "  sda: {layout: true}"), "disk_setup", 4, "no disks"},
		"fs_setup":      {cloudConfig("fs_setup: []"), "fs_setup", 2, "no disks"},
		"mounts":        {cloudConfig("mounts:", "- [a, b]"), "mounts", 3, "no disks"},
		"packages":      {cloudConfig("packages: [vim]"), "packages", 2, "its host"},
		"unheard of":    {cloudConfig("chef: {}"), "chef", 2, "write_files"},
		"empty unheard": {cloudConfig("swap:"), "swap", 2, "memory"},
		"file's source": {cloudConfig("write_files:", "- path: /a", "  source: {uri: x}"), "write_files[0].source", 4, "path"},
		"drop-in": {cloudConfig("write_files:", "- content: x", "  path: /etc/systemd/system/kubelet.service.d/20-flags.conf"),
			"write_files[0].path", 4, "/etc/systemd/system/kubelet.service.d/20-flags.conf: a local machine has no systemd"},
		"unit": {cloudConfig("write_files:", "- path: /a", "- path: /usr/lib/../lib/systemd/system/agent.service"),
			"write_files[1].path", 4, "KUBELET_EXTRA_ARGS, to /etc/default/kubelet"},
		"user's setting": {cloudConfig("users:", "- name: a", "- name: b", "  ssh_import_id: [x]"), "users[1].ssh_import_id", 5, "settings"},
		"default user":   {cloudConfig("users:", "- default"), "users[0]", 3, "does not exist"},
		"ntp client":     {cloudConfig("ntp: {ntp_client: chrony}"), "ntp.ntp_client", 2, "clock"},
		"template":       {jinja("runcmd:", "- '{{ ds.meta_data.region }}'"), "{{ ds.meta_data.region }}", 4, "ds.meta_data.hostname"},
		"template's if":  {jinja("{% if x %}"), "{% if x %}", 3, "raw"},
		"script":         {"#!/bin/sh\necho secret-token\n", "a script as user data", 1, header},
		"ignition":       {`{"ignition": {"x": "secret-token"}}`, "JSON (ignition) user data", 1, header},
		"gzip":           {"\x1f\x8b\x08", "compressed user data", 1, "plain"},
		"empty":          {"", "user data without the header #cloud-config", 1, header},
		"yaml":           {cloudConfig("runcmd:", "- 'a", "- b"), "", 3, ""},
		"yaml tab":       {cloudConfig("runcmd:", "\t- a"), "", 3, ""},
		"list":           {cloudConfig("- a"), "", 2, "must be a map"},
		"twice":          {cloudConfig("runcmd: [a]", "runcmd: [b]"), "", 3, "twice"},
		"command a map":  {cloudConfig("runcmd:", "- a: secret-token"), "", 3, "runcmd[0]: is a map"},
		"command null":   {cloudConfig("runcmd:", "- "), "", 3, "runcmd[0]"},
		"no list":        {cloudConfig("runcmd: rm"), "", 2, "must be a list"},
		"relative":       {cloudConfig("write_files:", "- path: a/b"), "", 3, "must begin with /"},
		"permissions":    {cloudConfig("write_files:", "- path: /a", "  permissions: '0999'"), "", 4, "octal"},
		"encoding":       {cloudConfig("write_files:", "- path: /a", "  encoding: rot13"), "", 3, "gz+base64"},
		"Latin-1":        {cloudConfig("write_files:", "- path: /a", "  content: caf\xe9"), "", 4, "needs an encoding, such as base64"},
		"no binary":      {cloudConfig("write_files:", "- path: /a", "  content: !!binary secret-token!"), "", 4, "must be base64"},
		"no base64":      {cloudConfig("write_files:", "- path: /a", "  encoding: b64", "  content: 'secret-token!'"), "", 3, "not base64"},
		"user name":      {cloudConfig("users:", "- name: 'a:b'"), "", 3, "user name"},
		"unclosed":       {jinja("a: '{{ x'"), "", 3, "no }}"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(c.data), meta)
			if err == nil {
				t.Fatal("taken for good")
			}
			if got := Unsupported(err); got != c.directive {
				t.Errorf("directive %q, want %q (%v)", got, c.directive, err)
			}
			line := 0
			if s, ok := errors.AsType[*SyntaxError](err); ok {
				line = s.Line
			} else if u, ok := errors.AsType[*UnsupportedError](err); ok {
				line = u.Line
			}
			if line != c.line || !strings.HasPrefix(err.Error(), fmt.Sprintf("line %d: ", c.line)) {
				t.Errorf("line %d, want %d (%v)", line, c.line, err)
			}
			if !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret-token") {
				t.Errorf("%v: want %q in it, and nothing of the data", err, c.says)
			}
		})
	}
}

// TestEtcdUnit: what a local machine runs as a unit may be written.
func TestEtcdUnit(t *testing.T) {
	for _, file := range []string{"/etc/systemd/system/etcd.service", "/etc/systemd/system/etcd.service.d/10.conf"} {
		if _, err := Parse([]byte("#cloud-config\nwrite_files:\n- path: "+file+"\n"), Meta{}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, file := range []string{"/etc/systemd/system/etcd.service.d/sub/10.conf", "/etc/systemd/system/etcd2.service",
		"/lib/systemd/system/etcd.service"} {
		if _, err := Parse([]byte("#cloud-config\nwrite_files:\n- path: "+file+"\n"), Meta{}); err == nil {
			t.Errorf("%s is accepted", file)
		}
	}
}

// TestAddresses: data may ask for the machine's address of a family that it has, and of no other.
func TestAddresses(t *testing.T) {
	const data = jinjaHeader + "\n#cloud-config\nruncmd: ['echo {{ ds.meta_data.local_ipv4 }}', 'echo {{ ds.meta_data.local_ipv6 }}']\n"
	c, err := Parse([]byte(data), Meta{Address: "10.0.0.1", Address6: "fd00::1"})
	if err != nil || c.Runcmd[0].Line != "echo 10.0.0.1" || c.Runcmd[1].Line != "echo fd00::1" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Parse([]byte(data), Meta{Address: "10.0.0.1"}); Unsupported(err) != "{{ ds.meta_data.local_ipv6 }}" {
		t.Errorf("an address that the machine has not got: %v", err)
	}
}
