package limits

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	theRules  = "internal/core/plan"
	secondKey = "internal/core/check"
)

// ofTime are the methods of the standard library's types that the second key may call.
var ofTime = []string{"Add", "After", "Before", "IsZero", "Sub"}

// TestSecondKey: package check uses types and constants of package plan alone, no function, method or variable, so that a mistake in the
// rules is not made there as well.
func TestSecondKey(t *testing.T) {
	set := token.NewFileSet()
	named := typesAndConstants(t, set, theRules)
	if !slices.Contains(named, "Observed") || !slices.Contains(named, "Delete") || slices.Contains(named, "Next") {
		t.Fatalf("types and constants of %s: %v", theRules, named)
	}
	files := filesOf(t, set, secondKey)
	for _, file := range files {
		for _, text := range shared(set, file, named) {
			t.Error(text)
		}
	}
}

// filesOf are the files of a package, without its tests.
func filesOf(t *testing.T, set *token.FileSet, dir string) []*ast.File {
	t.Helper()
	paths, err := filepath.Glob("../../" + dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		t.Fatalf("%s has no files", dir)
	}
	return files
}

// typesAndConstants are the names that a package declares as such.
func typesAndConstants(t *testing.T, set *token.FileSet, dir string) []string {
	t.Helper()
	var names []string
	for _, file := range filesOf(t, set, dir) {
		for _, d := range file.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok == token.VAR {
				continue
			}
			for _, spec := range g.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					names = append(names, spec.Name.Name)
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

// shared says what a file uses of the rules' package beside what is named, and which methods it calls that may be of that package.
func shared(set *token.FileSet, file *ast.File, named []string) []string {
	packages := map[string]string{} // by the name that the file gives each
	for _, i := range file.Imports {
		path := importPath(i)
		name := path[strings.LastIndex(path, "/")+1:]
		if i.Name != nil {
			name = i.Name.Name
		}
		packages[name] = path
	}
	var found []string
	say := func(at ast.Node, format string, args ...any) {
		found = append(found, set.Position(at.Pos()).String()+": "+fmt.Sprintf(format, args...))
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			of, ok := n.X.(*ast.Ident)
			if ok && packages[of.Name] == module+theRules && !slices.Contains(named, n.Sel.Name) {
				say(n, "%s.%s: the second key uses types and constants of the rules' package alone", of.Name, n.Sel.Name)
			}
		case *ast.CallExpr:
			called, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || slices.Contains(ofTime, called.Sel.Name) {
				return true
			}
			if of, ok := called.X.(*ast.Ident); !ok || packages[of.Name] == "" {
				say(n, "the method %s is called: the second key may call none that belongs to the rules", called.Sel.Name)
			}
		}
		return true
	})
	return found
}

// TestShared: each of these is found, or is none of it.
func TestShared(t *testing.T) {
	const of = `import "` + module + theRules + `"; `
	named := []string{"Observed", "Machine", "Delete"}
	for text, want := range map[string]string{
		of + `func f(o plan.Observed) bool { return o.Step == plan.Delete && isUp(o.Machines[0]) }`: "",
		of + `import "time"; func f(o plan.Observed) bool { return o.Now.Sub(time.Time{}) > 0 }`:    "",
		of + `func f(o plan.Observed) { plan.Next(o) }`:                                             "plan.Next",
		of + `var f = plan.Next`: "plan.Next",
		`import rules "` + module + theRules + `"; var f = rules.Next`:      "rules.Next",
		of + `func f(o plan.Observed) bool { return o.Etcd.Ours() }`:        "method Ours",
		of + `func f(m plan.Machine) bool { return m.Acts() }`:              "method Acts",
		of + `func f(o plan.Observed) bool { return o.Machines[0].Acts() }`: "method Acts",
	} {
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, "x.go", "package x; "+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(shared(set, file, named), "; ")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
