package cloudinit

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"#cloud-config\n",
		cloudConfig("write_files:", "- path: /a", "  content: |", "    x", "  permissions: '0640'", "  owner: root:root", "  encoding: base64"),
		jinja("hostname: '{{ ds.meta_data.local_hostname }}'", "runcmd:", "- [a, b]", "- c"),
		cloudConfig("users:", "- name: a", "  sudo: [x]", "  groups: a,b", "  inactive: true", "  uid: 12", "groups:", "- g: [a]", "- h",
			"ntp: {enabled: true, servers: [a]}"),
		cloudConfig("a: &a [*a]", "runcmd: &x", "- *x"),
		cloudConfig("write_files: &w", "- <<: *w"),
		jinjaHeader + "\n{% raw %}{% endraw %}\n#cloud-config\n",
		"#!/bin/sh\n",
		`{"ignition":{}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		begun := time.Now()
		c, err := Parse(data, meta)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		if err != nil {
			var syntax *SyntaxError
			var unsupported *UnsupportedError
			if !errors.As(err, &syntax) && !errors.As(err, &unsupported) {
				t.Errorf("%T: %v", err, err)
			}
			return
		}
		for _, file := range c.Files {
			if !filepath.IsAbs(file.Path) {
				t.Errorf("path %q", file.Path)
			}
		}
	})
}

// FuzzApply carries out accounts and files on whatever the machine's own files of accounts hold: nothing panics, and nothing
// is written outside of its root.
func FuzzApply(f *testing.F) {
	users := cloudConfig("groups: [b: [a]]", "users:", "- {name: a, ssh_authorized_keys: [k], groups: b, sudo: x, homedir: /../h}",
		"write_files:", "- {path: /../b, content: x, owner: 'a:a', defer: true}")
	f.Add([]byte(users), []byte("root:x:0:0:root:/root:/bin/sh\n"), []byte("root:x:0::::\n"))
	f.Add([]byte(users), []byte("a:x:\n:\n"), []byte("b\n"))
	f.Fuzz(func(t *testing.T, data, passwd, group []byte) {
		c, err := Parse(data, meta)
		if err != nil {
			return
		}
		around := t.TempDir()
		root := filepath.Join(around, "root")
		if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{"passwd": passwd, "group": group} {
			if err := os.WriteFile(filepath.Join(root, "etc", name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c.Apply(context.Background(), System{
			Root: root, Log: io.Discard, Began: func(string) {}, SetHostname: func(string) error { return nil },
			Run: func(context.Context, []string, io.Writer) (int, error) { return 0, nil },
		})
		if beside, err := os.ReadDir(around); err != nil || len(beside) != 1 {
			t.Errorf("beside the root there is %v, %v", beside, err)
		}
	})
}

// FuzzMarks: whatever commands print, in whatever portions, is no mark unless it knows the nonce.
func FuzzMarks(f *testing.F) {
	f.Add([]byte("abc\x1eNONCE b 0\x1eout\x1eNONCE e 1\x1e"), 3)
	f.Add([]byte("\x1eNONCE b -1\x1e\x1eNONCE e 1\x1e"), 1)
	f.Fuzz(func(t *testing.T, out []byte, step int) {
		m := newMarks(System{Log: io.Discard, Began: func(string) {}}, []Command{{Line: "a"}, {Line: "b"}})
		m.nonce = "NONCE"
		for step = max(step, 1); len(out) > 0; {
			n := min(step, len(out))
			if _, err := m.Write(out[:n]); err != nil {
				t.Fatal(err)
			}
			out = out[n:]
		}
		m.flush()
		_ = m.tail.String()
	})
}
