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

// writing are the names in controller-runtime's package client of what can write.
var writing = []string{
	"Client", "Writer", "WithWatch", "StatusWriter", "StatusClient", "SubResourceWriter", "SubResourceClient", "SubResourceClientConstructor",
	"New", "NewDryRunClient",
}

// turns are the packages that take part in turns.
var turns = []string{"internal/group", "internal/kinds/stacked", "internal/kinds/machines", "internal/kinds/etcdcluster"}

// writers are the files that take part in turns and may name what can write, with all that each may name. act alone writes. The
// controller is given its client, and hands it to act; the observer looks through it, and has the API server try what extensions are
// asked about.
var writers = map[string]string{
	"internal/group/act/client.go":      "Client",
	"internal/group/controller.go":      "Client NewDryRunClient",
	"internal/group/observe/sources.go": "Writer",
	"internal/group/grouptest/apply.go": "Client",
	// It takes part in no turn: it makes an EtcdCluster of somebody else's kind, which has turns then.
	"internal/kinds/etcdcluster/takeover/controller.go": "Client",
}

// TestOneWriter: of all that takes part in turns package act alone has a client that writes.
func TestOneWriter(t *testing.T) {
	read := eachFile(t, func(path string, file *ast.File) {
		allowed := strings.Fields(writers[path])
		named := namedOf(file, "sigs.k8s.io/controller-runtime/pkg/client", writing)
		for _, name := range named {
			if !slices.Contains(allowed, name) {
				t.Errorf("%s names client.%s: what writes belongs in internal/group/act", path, name)
			}
		}
		for _, name := range allowed {
			if !slices.Contains(named, name) {
				t.Errorf("%s may name client.%s and does not: strike it off the list", path, name)
			}
		}
	})
	for path := range writers {
		if !read[path] {
			t.Errorf("there is no %s: strike it off the list", path)
		}
	}
}

// judges are what asks the rules.
var judges = []string{"Next", "Assess", "Explain", "Judge"}

// TestJudgedOnce: the rules are asked in one place of a turn, and what follows keeps their answer.
func TestJudgedOnce(t *testing.T) {
	const place = "internal/group/decide.go"
	eachFile(t, func(path string, file *ast.File) {
		named := namedOf(file, module+"internal/core/plan", judges)
		named = append(named, namedOf(file, module+"internal/core/check", []string{"Decision"})...)
		if path == place {
			if want := []string{"Judge", "Decision"}; !slices.Equal(named, want) {
				t.Errorf("%s asks the rules by %v, not by %v", path, named, want)
			}
		} else if len(named) > 0 {
			t.Errorf("%s asks the rules again (%s): their answer is in View.Assessed", path, strings.Join(named, ", "))
		}
	})
}

// eachFile reads the files that take part in turns, without tests, and returns which there are.
func eachFile(t *testing.T, do func(path string, file *ast.File)) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, s := range read(t, "../..") {
		if !slices.ContainsFunc(turns, func(dir string) bool { return within(s.path, dir) }) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", s.path), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		found[s.path] = true
		do(s.path, file)
	}
	if len(found) < len(turns) {
		t.Fatalf("%d files: this test looks for the wrong thing", len(found))
	}
	return found
}

// namedOf returns which of some names of a package a file uses, sorted. Where the file gives the package no name of its own, all are used.
func namedOf(file *ast.File, of string, names []string) []string {
	local := ""
	for _, i := range file.Imports {
		if importPath(i) == of {
			local = of[strings.LastIndex(of, "/")+1:]
			if i.Name != nil {
				local = i.Name.Name
			}
		}
	}
	if local == "." {
		return names
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && local != "" && x.Name == local && slices.Contains(names, s.Sel.Name) {
				found = append(found, s.Sel.Name)
			}
		}
		return true
	})
	slices.Sort(found)
	return slices.Compact(found)
}

// TestNamedOf: each of these is found, or is none of it.
func TestNamedOf(t *testing.T) {
	const of = "sigs.k8s.io/controller-runtime/pkg/client"
	for text, want := range map[string]string{
		`import "` + of + `"; type a struct { b client.Client; c client.Reader }`:       "[Client]",
		`import "` + of + `"; func a(b client.Writer, c client.StatusWriter) {}`:        "[StatusWriter Writer]",
		`import kube "` + of + `"; var a kube.Client`:                                   "[Client]",
		`import "` + of + `"; var a client.Object; var b client.ObjectKey`:              "[]",
		`import "other/client"; var a client.Client`:                                    "[]",
		`import . "` + of + `"; var a Client`:                                           fmt.Sprint(writing),
		`import "` + of + `"; func f(client.Reader) { var d = client.NewDryRunClient }`: "[NewDryRunClient]",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x; "+text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(namedOf(file, of, writing)); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
