// Package limits keeps the tree within the limits of CONTRIBUTING.md that no linter knows:
// how long files are, how many of our packages one package imports, what
// packages may be called, and how often the linter is told to look away.
package limits

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
)

const (
	module       = "github.com/quorate/quorate/"
	longestFile  = 600
	longFile     = 400 // of 20 files at most one may be longer
	widestFanOut = 10
	mostEscapes  = 5
)

// vague are names that say nothing of what a package knows.
var vague = []string{"util", "utils", "common", "helpers", "misc", "pkg", "types", "base", "shared"}

// source is one Go file that is not generated and not a test.
type source struct {
	path    string
	lines   int
	imports []string
	escapes int
}

func TestLimits(t *testing.T) {
	var lengths []int
	fanOut := map[string]map[string]bool{}
	escapes := 0
	for _, s := range read(t, "../..") {
		lengths = append(lengths, s.lines)
		escapes += s.escapes
		if s.lines > longestFile {
			t.Errorf("%s has %d lines, at most %d", s.path, s.lines, longestFile)
		}
		dir := filepath.Dir(s.path)
		for _, name := range strings.Split(dir, "/") {
			for _, v := range vague {
				if name == v {
					t.Errorf("%s: a package named %q does not say what it knows", dir, name)
				}
			}
		}
		if fanOut[dir] == nil {
			fanOut[dir] = map[string]bool{}
		}
		for _, i := range s.imports {
			fanOut[dir][i] = true
		}
	}
	for dir, imports := range fanOut {
		if len(imports) > widestFanOut && !strings.HasPrefix(dir, "cmd/") {
			t.Errorf("%s imports %d packages of this module, at most %d", dir, len(imports), widestFanOut)
		}
	}
	if escapes > mostEscapes {
		t.Errorf("the linter is told to look away %d times, at most %d", escapes, mostEscapes)
	}
	sort.Ints(lengths)
	if p := lengths[len(lengths)*95/100]; p > longFile {
		t.Errorf("one file in 20 has more than %d lines, at most %d", p, longFile)
	}
	t.Logf("%d files, the longest has %d lines, %d lint escapes", len(lengths), lengths[len(lengths)-1], escapes)
}

func read(t *testing.T, root string) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "testdata" || n != ".." && strings.HasPrefix(n, ".") && path != root {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.HasPrefix(d.Name(), "zz_generated") {
			return nil
		}
		s, err := readFile(path)
		if err != nil {
			return err
		}
		s.path, _ = filepath.Rel(root, path)
		all = append(all, s)
		return nil
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("reading the tree: %d files, %v", len(all), err)
	}
	return all
}

func readFile(path string) (source, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return source{}, err
	}
	s := source{lines: strings.Count(string(text), "\n"), escapes: strings.Count(string(text), "//"+"nolint")}
	f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
	if err != nil {
		return source{}, err
	}
	for _, i := range f.Imports {
		if p, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module); ours {
			s.imports = append(s.imports, p)
		}
	}
	return s, nil
}
