package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sample = `// Package sample has texts.
//
//	code is left out
package sample

import "fmt"

// Told is a comment
// of two lines.
//
//nolint:unused // a reason
type Told struct {
	Name string ` + "`json:\"one two three four\"`" + ` // of a person
}

const help = ` + "`" + `Do what is asked.
It takes two lines.

  quorate up --workers 2  # with two workers` + "`" + `

func (t Told) fail() error {
	return fmt.Errorf("writing %q of "+t.Name+
		" into the folder: %w", t.Name, nil)
}
`

// TestSource: comments and messages are found where they stand, and code, tags and short literals are left out.
func TestSource(t *testing.T) {
	of, err := source("a.go", []byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]text{
		"comments": {
			{place{"a.go", 1}, "Package sample has texts."},
			{place{"a.go", 8}, "Told is a comment of two lines."},
			{place{"a.go", 13}, "of a person"},
		},
		"messages": {
			{place{"a.go", 16}, "Do what is asked. It takes two lines."},
			{place{"a.go", 19}, "with two workers"},
			{place{"a.go", 22}, "writing X of X into the folder"}, {place{"a.go", 22}, "X"},
		},
	}
	for kind, texts := range want {
		if !slices.Equal(of[kind], texts) {
			t.Errorf("%s: %+v, want %+v", kind, of[kind], texts)
		}
	}
}

// TestGolden: the messages of a golden file are read once each, without the step that they explain.
func TestGolden(t *testing.T) {
	got := golden("e.txt", `# What every rule says

3/abc | 1a |
    hold                 neither is paused
    grow                 RemoveMember e2 (cp-2) (StuckMember: it (e2) is a learner; it waits)
    unadoptable machines none is in the way
    steady               neither is paused
`)
	want := []text{{place{"e.txt", 4}, "neither is paused"}, {place{"e.txt", 5}, "it (e2) is a learner"}, {place{"e.txt", 5}, "it waits"},
		{place{"e.txt", 6}, "none is in the way"}}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestCheck: an alert names the file and the line of the source. The program in place of vale has an alert for the second text of each
// file that it is given.
func TestCheck(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	t.Chdir(t.TempDir())
	for name, content := range map[string]string{
		".vale.ini": "", "a.md": "text\n", filepath.Join("src", "a.go"): sample, filepath.Join("src", "a_test.go"): sample,
		"vale": `#!/bin/sh
for f; do case $f in
  *.md) echo "{\"$f\": [{\"Line\": 3, \"Check\": \"Quorate.Words\", \"Message\": \"no\", \"Match\": \"x\"}]}" ;;
  -*) ;;
  *) echo "{\"$f/src/a.go.comments.md\": [{\"Line\": 3, \"Check\": \"Quorate.Words\", \"Message\": \"no\", \"Match\": \"x\"}]}" ;;
esac; done`,
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	alerts, r, err := check("./vale", []string{"a.md", "src"})
	if err != nil {
		t.Fatal(err)
	}
	want := `a.md:3: no (Quorate.Words, in "x")
src/a.go:8: no (Quorate.Words, in "x")`
	if got := strings.Join(alerts, "\n"); got != want {
		t.Errorf("alerts:\n%s\nwant:\n%s", got, want)
	}
	if (r != read{documents: 1, sources: 1, texts: 7}) {
		t.Errorf("checked %s", r)
	}
	if _, _, err := check("./vale", []string{"missing"}); err == nil {
		t.Error("a folder that is missing is no error")
	}
}
