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

// roles are who decides, who runs a turn for all kinds, and who carries out for one kind. What decides imports no
// turn and no shell, a turn imports no shell, and no shell imports another, neither itself nor by what it imports. Whatever
// reconciles is a turn or a shell; a new one gets its place here.
var roles = struct{ decisions, turns, shells []string }{
	decisions: []string{"internal/quorum", "internal/version", "internal/drift", "internal/plan", "internal/forecast", "internal/steps", "internal/upgradepod", "internal/updates", "internal/workerplan", "internal/extension/inplace"},
	turns:     []string{"internal/group"},
	shells:    []string{"internal/stacked", "internal/machines", "internal/local", "internal/admission", "internal/etcdadm/provider", "internal/nodeupgrade", "internal/workerupgrade", "internal/extension"},
}

// parts are packages that are one shell's: no other may use them.
var parts = map[string]string{
	"internal/sandbox":  "internal/local",
	"internal/balancer": "internal/local",
}

// TestRoles keeps decisions, turns and shells apart.
func TestRoles(t *testing.T) {
	all := read(t, "../..")
	for _, text := range entangled(all) {
		t.Error(text)
	}
	named := append(slices.Concat(roles.decisions, roles.turns, roles.shells), "internal/sandbox", "internal/balancer")
	for _, name := range named {
		if !slices.ContainsFunc(all, func(s source) bool { return within(s.path, name) }) {
			t.Errorf("there is no %s: strike it off the list", name)
		}
	}
}

// TestReconcilersAreListed: each package that reconciles is a turn or a shell.
func TestReconcilersAreListed(t *testing.T) {
	known := slices.Concat(roles.turns, roles.shells)
	found := 0
	for _, s := range read(t, "../..") {
		if !within(s.path, "internal") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", s.path), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if !reconciles(file) {
			continue
		}
		found++
		if dir := filepath.Dir(s.path); !slices.ContainsFunc(known, func(name string) bool { return within(dir, name) }) {
			t.Errorf("%s reconciles and is neither a turn nor a shell: give %s its place", s.path, dir)
		}
	}
	if found == 0 {
		t.Error("nothing reconciles: this test looks for the wrong thing")
	}
}

// reconciles reports whether a file has a method Reconcile.
func reconciles(file *ast.File) bool {
	return slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Recv != nil && f.Name.Name == "Reconcile"
	})
}

// within reports whether a package or file is or lies in the folder.
func within(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// entangled says which packages reach one that they may not, and by which way.
func entangled(all []source) []string {
	imports := map[string][]string{}
	for _, s := range all {
		dir := filepath.Dir(s.path)
		imports[dir] = append(imports[dir], s.imports...)
	}
	var found []string
	for dir := range imports {
		for _, name := range forbidden(dir) {
			if way := reach(imports, dir, name); way != nil {
				found = append(found, fmt.Sprintf("%s may not depend on %s, and does: %s", dir, name, strings.Join(way, " imports ")))
			}
		}
	}
	slices.Sort(found)
	return found
}

// forbidden are the folders that a package may not depend on.
func forbidden(dir string) []string {
	in := func(list []string) bool {
		return slices.ContainsFunc(list, func(name string) bool { return within(dir, name) })
	}
	switch {
	case in(roles.decisions):
		return slices.Concat(roles.turns, roles.shells)
	case in(roles.turns):
		return roles.shells
	case in(roles.shells):
		others := slices.DeleteFunc(slices.Clone(roles.shells), func(name string) bool { return within(dir, name) })
		for part, shell := range parts {
			if !within(dir, shell) {
				others = append(others, part)
			}
		}
		return others
	}
	for part := range parts {
		if within(dir, part) {
			return slices.Concat(roles.turns, roles.shells)
		}
	}
	return nil
}

// reach returns the shortest way of imports from a package into a folder; nil: there is none.
func reach(imports map[string][]string, from, folder string) []string {
	before := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range imports[queue[0]] {
			if _, seen := before[next]; seen {
				continue
			}
			before[next] = queue[0]
			if !within(next, folder) {
				queue = append(queue, next)
				continue
			}
			way := []string{next}
			for at := queue[0]; at != ""; at = before[at] {
				way = append([]string{at}, way...)
			}
			return way
		}
	}
	return nil
}

// TestEntangled: each of these is found, or is none of it.
func TestEntangled(t *testing.T) {
	was := roles
	defer func() { roles = was }()
	roles.turns, roles.shells = []string{"internal/group"}, append(slices.Clone(was.shells), "internal/machines")
	for _, test := range []struct {
		imports []string // each "from to"
		want    string   // part of what is said; empty: nothing
	}{
		{[]string{"internal/stacked internal/plan", "internal/stacked internal/group", "internal/group internal/plan"}, ""},
		{[]string{"internal/local internal/sandbox", "internal/local/x internal/local", "internal/cli internal/local", "internal/cli internal/stacked"}, ""},
		{[]string{"internal/stacked internal/local"}, "internal/stacked imports internal/local"},
		{[]string{"internal/stacked internal/local/x"}, "internal/stacked imports internal/local/x"},
		{[]string{"internal/machines internal/stacked"}, "internal/machines imports internal/stacked"},
		{[]string{"internal/machines internal/x", "internal/x internal/y", "internal/y internal/stacked"}, "internal/machines imports internal/x imports internal/y imports internal/stacked"},
		{[]string{"internal/group internal/machines"}, "internal/group imports internal/machines"},
		{[]string{"internal/plan internal/group"}, "internal/plan imports internal/group"},
		{[]string{"internal/drift internal/x", "internal/x internal/stacked"}, "internal/drift imports internal/x imports internal/stacked"},
		{[]string{"internal/stacked internal/sandbox"}, "internal/stacked imports internal/sandbox"},
		{[]string{"internal/balancer internal/local"}, "internal/balancer imports internal/local"},
	} {
		var all []source
		for _, i := range test.imports {
			from, to, _ := strings.Cut(i, " ")
			all = append(all, source{path: from + "/a.go", imports: []string{to}})
		}
		got := strings.Join(entangled(all), "; ")
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%v: %q, want %q", test.imports, got, test.want)
		}
	}
}
