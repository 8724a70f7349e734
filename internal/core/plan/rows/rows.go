// Package rows reads the notation in which tests write a state of a group, and runs the files that are written in it. Tests alone use it.
package rows

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/plan"
)

// Answer runs a file of rows. Every line that is neither indented nor a comment
// is a state; the indented lines below it are what answer must return for that state.
// answer is handed the lines that are there, since some of them are questions. With the flag -test.failfast the first
// row that fails is the last: thousands of sabotages are run through these files.
func Answer(t *testing.T, path string, update bool, answer func(o plan.Observed, asked []string) []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	var rewritten []string
	for i := 0; i < len(lines); {
		line := lines[i]
		at := i + 1
		i++
		rewritten = append(rewritten, line)
		if line == "" || line[0] == '#' {
			continue
		}
		var below []string
		for i < len(lines) && strings.HasPrefix(lines[i], "    ") {
			below = append(below, strings.TrimSpace(lines[i]))
			i++
		}
		o, err := State(line)
		if err != nil {
			t.Errorf("%s:%d: %s: %v", path, at, line, err)
			continue
		}
		got := answer(o, below)
		for _, l := range got {
			rewritten = append(rewritten, "    "+l)
		}
		if g, w := strings.Join(got, "\n"), strings.Join(below, "\n"); g != w && !update {
			t.Errorf("%s:%d: %s\n got  %s\n want %s", path, at, line, g, w)
		}
		if t.Failed() && failFast() {
			t.FailNow()
		}
	}
	if update {
		if err := os.WriteFile(path, []byte(strings.Join(rewritten, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// failFast: the tests end with the first that fails.
func failFast() bool {
	f := flag.Lookup("test.failfast")
	return f != nil && f.Value.String() == "true"
}
