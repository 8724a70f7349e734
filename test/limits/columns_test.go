package limits

import (
	"bytes"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const widest = 140 // columns; a tab counts as one

// TestColumns: no line of Go is wider than the limit, tests included and generated ones left out. Markers of generators, which must stand
// on one line, and what stands in a string of several lines for another program are left out too.
func TestColumns(t *testing.T) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "testdata" || n != ".." && strings.HasPrefix(n, ".") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasPrefix(d.Name(), "zz_generated") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || bytes.Contains(text, []byte("\n// Code generated ")) || bytes.HasPrefix(text, []byte("// Code generated ")) {
			return err
		}
		at, err := filepath.Rel("../..", path)
		if err != nil {
			return err
		}
		for _, line := range wideIn(text) {
			t.Errorf("%s:%d: the line has more than %d columns", at, line, widest)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wideIn returns the numbers of the lines of a file that are too wide and can be broken.
func wideIn(text []byte) []int {
	inside := map[int]bool{} // the lines that begin in a string
	positions := token.NewFileSet()
	file := positions.AddFile("", -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, kind, literal := s.Scan()
		if kind == token.EOF {
			break
		}
		if kind == token.STRING {
			first := file.Line(pos)
			for n := range strings.Count(literal, "\n") {
				inside[first+n], inside[first+n+1] = true, true
			}
		}
	}
	var wide []int
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSuffix(line, "\n")
		if utf8.RuneCountInString(line) > widest && !inside[n] && !strings.HasPrefix(strings.TrimSpace(line), "// +") {
			wide = append(wide, n)
		}
	}
	return wide
}

// TestWideIn: lines that can be broken are found, and no others.
func TestWideIn(t *testing.T) {
	long := strings.Repeat("x ", widest)
	text := "package a\n\n// +marker " + long + "\n// " + long + "\nvar a = `\n" + long + "\n`\n\nvar b = `" + long + "`\n"
	got := wideIn([]byte(text))
	if len(got) != 2 || got[0] != 4 || got[1] != 9 {
		t.Errorf("lines %v are too wide, want 4 and 9", got)
	}
}
