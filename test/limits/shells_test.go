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
	decisions: []string{"internal/core/quorum", "internal/core/backup", "internal/core/version", "internal/core/drift", "internal/core/plan",
		"internal/core/check", "internal/core/forecast", "internal/core/steps", "internal/upgrade/upgradepod", "internal/upgrade/eviction",
		"internal/upgrade/updates", "internal/core/workerplan", "internal/upgrade/extension/inplace"},
	turns: []string{"internal/group"},
	shells: []string{"internal/kinds/stacked", "internal/kinds/machines", "internal/local/provider", "internal/admission",
		"internal/kinds/etcdadm/provider", "internal/kinds/etcdcluster/takeover", "internal/upgrade/nodeupgrade",
		"internal/upgrade/workerupgrade", "internal/upgrade/extension", "internal/manager/backups"},
}

// parts are packages that are one shell's: no other may use them.
var parts = map[string]string{
	"internal/local/sandbox":  "internal/local/provider",
	"internal/local/balancer": "internal/local/provider",
}

// TestRoles keeps decisions, turns and shells apart.
func TestRoles(t *testing.T) {
	all := read(t, "../..")
	for _, text := range entangled(all) {
		t.Error(text)
	}
	named := append(slices.Concat(roles.decisions, roles.turns, roles.shells), "internal/local/sandbox", "internal/local/balancer")
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
	roles.turns, roles.shells = []string{"internal/group"}, append(slices.Clone(was.shells), "internal/kinds/machines")
	for _, test := range []struct {
		imports []string // each "from to"
		want    string   // part of what is said; empty: nothing
	}{
		{[]string{"internal/kinds/stacked internal/core/plan", "internal/kinds/stacked internal/group", "internal/group internal/core/plan"}, ""},
		{[]string{"internal/local/provider internal/local/sandbox", "internal/local/provider/x internal/local/provider",
			"internal/cli internal/local/provider", "internal/cli internal/kinds/stacked"}, ""},
		{[]string{"internal/kinds/stacked internal/local/provider"}, "internal/kinds/stacked imports internal/local/provider"},
		{[]string{"internal/kinds/stacked internal/local/provider/x"}, "internal/kinds/stacked imports internal/local/provider/x"},
		{[]string{"internal/kinds/machines internal/kinds/stacked"}, "internal/kinds/machines imports internal/kinds/stacked"},
		{[]string{"internal/kinds/machines internal/x", "internal/x internal/y", "internal/y internal/kinds/stacked"},
			"internal/kinds/machines imports internal/x imports internal/y imports internal/kinds/stacked"},
		{[]string{"internal/group internal/kinds/machines"}, "internal/group imports internal/kinds/machines"},
		{[]string{"internal/core/plan internal/group"}, "internal/core/plan imports internal/group"},
		{[]string{"internal/core/drift internal/x", "internal/x internal/kinds/stacked"},
			"internal/core/drift imports internal/x imports internal/kinds/stacked"},
		{[]string{"internal/kinds/stacked internal/local/sandbox"}, "internal/kinds/stacked imports internal/local/sandbox"},
		{[]string{"internal/local/balancer internal/local/provider"}, "internal/local/balancer imports internal/local/provider"},
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
