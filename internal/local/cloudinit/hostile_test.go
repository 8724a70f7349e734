package cloudinit

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Paths of the data begin at the machine's root, as they do for the kernel: no ".." leads above it.
func TestFilesStayBelowTheRoot(t *testing.T) {
	w := newWorld(t)
	around := w.Root
	w.Root = filepath.Join(around, "deep", "root")
	if err := os.MkdirAll(filepath.Join(w.Root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if f := w.apply(t, "users:", "- {name: eve, uid: 0, homedir: /../../home, ssh_authorized_keys: [key]}",
		"write_files:", "- {path: /../../above, content: x}", "- {path: /etc/../inside, content: y}"); f != nil && os.Getuid() == 0 {
		t.Fatalf("%+v", f)
	}
	for path, want := range map[string]string{"above": "x", "inside": "y"} {
		if got := w.read(t, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	for _, path := range []string{"above", "home"} {
		if _, err := os.Stat(filepath.Join(around, path)); err == nil {
			t.Errorf("%s was written above the root", path)
		}
	}
	if _, err := os.Stat(filepath.Join(w.Root, "home")); err != nil {
		t.Error(err)
	}
}

// What becomes of content must fit into the memory of a small machine, whatever was made of it before.
func TestContentIsBounded(t *testing.T) {
	zeros := func(size int) string {
		var b bytes.Buffer
		w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(b.Bytes())
	}
	list := "[" + strings.Repeat("x,", 20000) + "x]"
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"one file": {[]string{"write_files:", "- {path: /a, encoding: gz+b64, content: " + zeros(64<<20) + "}"}, "more than 16 MiB"},
		"many files": {[]string{"write_files:", "- &f {path: /a, encoding: gz+b64, content: " + zeros(16<<20) + "}", "- *f", "- *f", "- *f",
			"- *f"}, "more than 64 MiB"},
		"aliases":        {[]string{"runcmd:", "- &l " + list, strings.Repeat("- *l\n", 200)}, "aliases"},
		"alias of alias": {[]string{"runcmd: &l", "- *l"}, "contains itself"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(cloudConfig(c.lines...)), meta); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%.200v, want %q", err, c.want)
			}
		})
	}
	got, err := Parse([]byte(cloudConfig("write_files:", "- {path: /a, encoding: gz+b64, content: "+zeros(16<<20)+"}")), meta)
	if err != nil || len(got.Files[0].Content) != 16<<20 {
		t.Errorf("a file of the greatest size: %v", err)
	}
}

// A machine's first process reads these files, and the machine ends with it.
func TestShortLinesOfAccounts(t *testing.T) {
	for _, line := range []string{"", "eve", "eve:x", "eve:x:1000:1000", "eve:x:1000:1000:", ":", "\x00"} {
		w := newWorld(t)
		for _, file := range []string{"passwd", "group", "shadow"} {
			if err := os.WriteFile(filepath.Join(w.Root, "etc", file), []byte(line+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f := w.apply(t, "groups: [wheel: [eve]]", "users:", "- {name: eve, groups: wheel, ssh_authorized_keys: [key]}")
		if strings.HasPrefix(line, "eve") && (f == nil || f.Command != "users") {
			t.Errorf("%q: %+v, want that users cannot be made", line, f)
		}
	}
}

// What commands print is shown on terminals later: nothing in it may act on them.
func TestOutputHasNoControlCharacters(t *testing.T) {
	var kept tail
	_, _ = kept.Write([]byte("a\x1b]0;title\x07b\x1b[2Jc\rd\x1b[31mred\x1b[0m\x1b[?25l\n\ttwo\xc2\x9b31m\x9b\x00"))
	if got, want := kept.String(), "abcdred\n\ttwo"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
