package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEndOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if _, err := endOf(path, 10); !os.IsNotExist(err) {
		t.Errorf("of no file: %v", err)
	}
	for text, want := range map[string]string{
		"":                       "",
		"one\ntwo\n":             "one\ntwo\n",
		"a line\nthe end\n":      "the end\n",
		strings.Repeat("x", 100): "",
	} {
		writeAll(t, map[string]string{path: text})
		if got, err := endOf(path, 10); err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestFullDisks(t *testing.T) {
	if got := fullDisks([]string{t.TempDir(), "/nowhere"}); got != "" {
		t.Errorf("%q, and nothing is full", got)
	}
	// Of /proc the kernel says that it has no room, and it is one file system wherever it is looked at.
	if got := fullDisks([]string{"/proc", "/proc/sys"}); got != "/proc" {
		t.Errorf("%q, want /proc", got)
	}
}

func TestEndsInAShortTime(t *testing.T) {
	start := time.Now()
	var recent ends
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {time.Second, 2}, {kubeletTries, 3}, {kubeletTries + time.Second, 3}, {3 * kubeletTries, 1}} {
		if recent = recent.with(start.Add(c.after)); len(recent) != c.want {
			t.Errorf("%s after the first: %d, want %d", c.after, len(recent), c.want)
		}
	}
}
