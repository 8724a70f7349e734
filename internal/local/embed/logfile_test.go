package embed

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogIsLimited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("from before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A second descriptor stands for standard error, to which a crash writes past the log.
	stderr, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	l, err := openLog(path, int(stderr.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	checkMode(t, path, 0o600)
	block := append(bytes.Repeat([]byte("x"), 1<<20-1), '\n')
	for range 25 {
		if _, err := l.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := stderr.WriteString("panic\n"); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{path, path + ".1"} {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() > maxLog+100 || info.Size() < 1<<20 {
			t.Errorf("%s has %d bytes, want at most %d", f, info.Size(), maxLog)
		}
	}
	if got := tail(path, 1); got != "panic" {
		t.Errorf("the last line is %.20q, want what was written to the followed descriptor", got)
	}
	if others, _ := filepath.Glob(path + ".*"); len(others) != 1 {
		t.Errorf("older parts: %v, want one", others)
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if got := tail(path, 3); !strings.Contains(got, path) {
		t.Errorf("of no file: %q, want why not", got)
	}
	for _, c := range []struct{ content, want string }{
		{"", ""}, {"a\n", "a"}, {"a\nb\nc\nd\n", "b\nc\nd"}, {"a\nb", "a\nb"},
		{strings.Repeat("long ", 10000) + "\nend\n", "end"},
	} {
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := tail(path, 3); !strings.HasSuffix(got, c.want) || len(got) > 20<<10 {
			t.Errorf("of %.20q: %d bytes %.20q, want %q", c.content, len(got), got, c.want)
		}
	}
}
