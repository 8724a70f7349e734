package limits

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"testing"
)

const (
	mostMethods          = 40 // of a type
	mostInterfaceMethods = 8  // embedded ones included, where they are of the same module
)

// larger are types and interfaces that have more methods than they should, with how many. None may get more; one that has fewer gets its
// new number here.
var larger = map[string]int{
	"internal/core/sim World":                 421,
	"internal/core/plan state":                194,
	"internal/upgrade/upgrader node":          71,
	"internal/local/sandbox Host":             67,
	"internal/upgrade/nodeupgrade Controller": 47,
	"internal/upgrade/upgrader layout":        42,
	"internal/local/provider machines":        10,
	"test/model group":                        79,
}

// TestMethods keeps types small enough to be held in mind.
func TestMethods(t *testing.T) {
	count := methods(t)
	for _, name := range slices.Sorted(maps.Keys(count)) {
		c := count[name]
		most := mostMethods
		if c.isInterface {
			most = mostInterfaceMethods
		}
		switch is := larger[name]; {
		case is == 0 && c.n > most:
			t.Errorf("%s has %d methods, at most %d", name, c.n, most)
		case is > 0 && c.n > is:
			t.Errorf("%s has %d methods: it should lose some, and had %d", name, c.n, is)
		case is > 0 && c.n < is:
			t.Errorf("%s has %d methods, not %d any more: put that into the list, or strike it off", name, c.n, is)
		}
	}
	for name := range larger {
		if count[name].n == 0 {
			t.Errorf("there is no %s: strike it off the list", name)
		}
	}
}

// counted is how many methods a type has.
type counted struct {
	n           int
	isInterface bool
}

// methods counts the methods of all types, by package and name.
func methods(t *testing.T) map[string]counted {
	t.Helper()
	count, embeds := map[string]counted{}, map[string][]string{}
	for _, s := range read(t, "../..") {
		dir := filepath.Dir(s.path)
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", s.path), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
				name := dir + " " + receiver(f.Recv.List[0].Type)
				count[name] = counted{n: count[name].n + 1}
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if i, ok := spec.Type.(*ast.InterfaceType); ok {
				name := dir + " " + spec.Name.Name
				own, others := interfaceMethods(file, dir, i)
				count[name], embeds[name] = counted{own, true}, others
			}
			return true
		})
	}
	total := maps.Clone(count)
	for name, others := range embeds {
		c := count[name]
		for _, other := range others {
			c.n += count[other].n
		}
		total[name] = c
	}
	return total
}

// interfaceMethods counts the methods that an interface names itself, and returns which interfaces of this module it embeds.
func interfaceMethods(file *ast.File, dir string, of *ast.InterfaceType) (own int, embedded []string) {
	for _, field := range of.Methods.List {
		own += len(field.Names)
		if len(field.Names) > 0 {
			continue
		}
		switch e := field.Type.(type) {
		case *ast.Ident:
			embedded = append(embedded, dir+" "+e.Name)
		case *ast.SelectorExpr:
			for _, i := range file.Imports {
				path := importPath(i)
				if x, ok := e.X.(*ast.Ident); ok && filepath.Base(path) == x.Name && len(path) > len(module) && path[:len(module)] == module {
					embedded = append(embedded, path[len(module):]+" "+e.Sel.Name)
				}
			}
		}
	}
	return own, embedded
}

// receiver names the type of a receiver.
func receiver(of ast.Expr) string {
	switch of := of.(type) {
	case *ast.StarExpr:
		return receiver(of.X)
	case *ast.IndexExpr:
		return receiver(of.X)
	case *ast.IndexListExpr:
		return receiver(of.X)
	case *ast.Ident:
		return of.Name
	}
	return fmt.Sprintf("%T", of)
}
