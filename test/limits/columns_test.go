package limits

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	widest = 140 // columns; a tab counts as one
	// wideLines is how many lines of Go there are that are wider, tests included, generated ones left out. Where there are fewer, this
	// number goes down.
	wideLines = 3455
)

// TestColumns: the number of lines that are too wide only falls.
func TestColumns(t *testing.T) {
	wide := 0
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
		for line := range strings.Lines(string(text)) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > widest {
				wide++
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if wide > wideLines {
		t.Errorf("%d lines have more than %d columns, and %d had: break those that are new", wide, widest, wideLines)
	}
	t.Logf("%d lines have more than %d columns", wide, widest)
}
