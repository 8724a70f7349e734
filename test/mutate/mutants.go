package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is one sabotage.
type mutant struct {
	number   int
	pkg      string
	function string
	place    string // file:line
	was, is  string
	caughtBy string // the first test that failed; empty: none did
}

// String names the sabotage: where it is, what was there and what is.
func (m mutant) String() string {
	return fmt.Sprintf("%d %s: %s  ->  %s", m.number, m.place, m.was, m.is)
}

// site is a piece of source that can be sabotaged, in one way or several.
type site struct {
	from, to int // offsets
	edits    []edit
	kind     kind
	function string
}

// kind is how the active sabotage of a site is chosen in the text.
type kind int

const (
	logic     kind = iota // a condition: by logic, so that operands stay lazy
	value                 // by a function
	statement             // left out
)

// edit replaces a part of a site.
type edit struct {
	from, to int
	with     string
}

// negated and bordered are what comparisons turn into.
var (
	negated = map[token.Token]string{token.EQL: "!=", token.NEQ: "==", token.LSS: ">=", token.GEQ: "<", token.GTR: "<=", token.LEQ: ">",
		token.LAND: "||", token.LOR: "&&"}
	bordered = map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}
)

// support is added to each package: which sabotage is active.
const support = `package %s

import (
	"os"
	"strconv"
)

var activeMutant, _ = strconv.Atoi(os.Getenv("MUTANT"))

func mutated[T any](n int, was, is T) T {
	if activeMutant == n {
		return is
	}
	return was
}
`

// sabotage writes a package's files again, with all sabotages in them, and notes in
// overlay which stands for which. Numbers go on after those given before.
func sabotage(dir, work string, before int, overlay map[string]string) ([]mutant, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	pkg := filepath.Base(dir)
	var mutants []mutant
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		found, text, err := rewrite(name, pkg, src, before+len(mutants))
		if err != nil {
			return nil, err
		}
		mutants = append(mutants, found...)
		if err := put(work, pkg, name, text, overlay); err != nil {
			return nil, err
		}
	}
	return mutants, put(work, pkg, filepath.Join(dir, "mutant.go"), fmt.Sprintf(support, pkg), overlay)
}

func put(work, pkg, name, text string, overlay map[string]string) error {
	path := filepath.Join(work, pkg+"_"+filepath.Base(name))
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	overlay[name] = path
	return nil
}

// rewrite returns the sabotages of a file, and its text with all of them.
func rewrite(name, pkg string, src []byte, before int) ([]mutant, string, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, 0)
	if err != nil {
		return nil, "", fmt.Errorf("parsing %s: %w", name, err)
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	sites := find(file, offset)
	w := &writer{src: string(src), next: before}
	text := w.text(0, len(src), sites)
	for i := range w.mutants {
		m := &w.mutants[i]
		m.pkg = pkg
		m.place = fmt.Sprintf("%s/%s:%d", pkg, filepath.Base(name), 1+strings.Count(string(src[:w.at[i]]), "\n"))
	}
	return w.mutants, text, nil
}

// find lists the sites of a file, the outer before the inner.
func find(file *ast.File, offset func(token.Pos) int) []site {
	var sites []site
	for _, d := range file.Decls {
		name := ""
		if f, ok := d.(*ast.FuncDecl); ok {
			name = f.Name.Name
		}
		ast.Inspect(d, func(n ast.Node) bool {
			for _, s := range sitesOf(n, offset) {
				s.function = name
				sites = append(sites, s)
			}
			return true
		})
	}
	slices.SortStableFunc(sites, func(a, b site) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to
	})
	return sites
}

// sitesOf lists what can be sabotaged of one node itself.
func sitesOf(n ast.Node, offset func(token.Pos) int) []site {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return binary(n, offset)
	case *ast.UnaryExpr:
		return unary(n, offset)
	case *ast.IfStmt:
		return condition(n.Cond, offset)
	case *ast.SwitchStmt:
		return cases(n, offset)
	case *ast.BlockStmt:
		return statements(n.List, offset)
	case *ast.CaseClause:
		return statements(n.Body, offset)
	case *ast.KeyValueExpr:
		return rule(n, offset)
	}
	return nil
}

// unary lists a NOT or a minus that can be left out.
func unary(n *ast.UnaryExpr, offset func(token.Pos) int) []site {
	at := offset(n.Pos())
	without := site{from: at, to: offset(n.End()), edits: []edit{{at, at + 1, ""}}}
	switch n.Op {
	case token.NOT:
		return []site{without}
	case token.SUB:
		without.kind = value
		return []site{without}
	}
	return nil
}

// rule lists what a rule decides with, which can be disabled.
func rule(n *ast.KeyValueExpr, offset func(token.Pos) int) []site {
	if k, ok := n.Key.(*ast.Ident); !ok || k.Name != "decide" {
		return nil
	}
	from, to := offset(n.Value.Pos()), offset(n.Value.End())
	pass := `func(*state) opinion { return opinion{because: "disabled"} }`
	return []site{{from: from, to: to, edits: []edit{{from, to, pass}}, kind: value}}
}

func binary(n *ast.BinaryExpr, offset func(token.Pos) int) []site {
	s := site{from: offset(n.Pos()), to: offset(n.End())}
	op := offset(n.OpPos)
	width := len(n.Op.String())
	if with, ok := negated[n.Op]; ok {
		s.edits = append(s.edits, edit{op, op + width, with})
	}
	if with, ok := bordered[n.Op]; ok {
		s.edits = append(s.edits, edit{op, op + width, with})
	}
	if n.Op == token.LAND || n.Op == token.LOR {
		s.edits = append(s.edits, edit{offset(n.X.End()), s.to, ""}, edit{s.from, offset(n.Y.Pos()), ""})
	}
	if n.Op == token.SUB {
		s.edits, s.kind = append(s.edits, edit{op, op + width, "+"}), value
	}
	if s.edits == nil {
		return nil
	}
	return []site{s}
}

// condition makes a condition always true and never true, and turns it around if
// it has no operator of its own that does.
func condition(e ast.Expr, offset func(token.Pos) int) []site {
	from, to := offset(e.Pos()), offset(e.End())
	s := site{from: from, to: to, edits: []edit{{from, to, "true"}, {from, to, "false"}}}
	switch e.(type) {
	case *ast.CallExpr, *ast.Ident, *ast.SelectorExpr:
		s.edits = append(s.edits, edit{from, from, "!"})
	}
	return []site{s}
}

// cases are the conditions of a switch without a tag, which are never plain values.
func cases(n *ast.SwitchStmt, offset func(token.Pos) int) []site {
	var sites []site
	if n.Tag != nil {
		return nil
	}
	for _, c := range n.Body.List {
		for _, e := range c.(*ast.CaseClause).List {
			sites = append(sites, condition(e, offset)...)
		}
	}
	return sites
}

// statements are those that can be left out and the rest still compiles.
func statements(list []ast.Stmt, offset func(token.Pos) int) []site {
	var sites []site
	for _, st := range list {
		from, to := offset(st.Pos()), offset(st.End())
		leave := site{from: from, to: to, edits: []edit{{from, to, ""}}, kind: statement}
		switch st := st.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.BranchStmt:
			sites = append(sites, leave)
		case *ast.AssignStmt:
			if st.Tok != token.DEFINE {
				sites = append(sites, leave)
			}
		}
	}
	return sites
}

// writer writes a file with its sabotages.
type writer struct {
	src     string
	next    int
	mutants []mutant
	at      []int // offset of each
}

// text is the source between two offsets, with the given sites in it.
func (w *writer) text(from, to int, sites []site) string {
	var b strings.Builder
	for i := 0; i < len(sites); {
		s := sites[i]
		j := i + 1
		for j < len(sites) && sites[j].from < s.to {
			j++
		}
		b.WriteString(w.src[from:s.from])
		b.WriteString(w.site(s, sites[i+1:j]))
		from, i = s.to, j
	}
	b.WriteString(w.src[from:to])
	return b.String()
}

// site is one site with its sabotages to choose from; inner are those within it.
func (w *writer) site(s site, inner []site) string {
	was := w.src[s.from:s.to]
	var numbers []int
	var is []string
	for _, e := range s.edits {
		w.next++
		text := w.src[s.from:e.from] + e.with + w.src[e.to:s.to]
		w.mutants = append(w.mutants, mutant{number: w.next, function: s.function, was: short(was), is: short(text)})
		w.at = append(w.at, s.from)
		numbers, is = append(numbers, w.next), append(is, text)
	}
	text := w.text(s.from, s.to, inner)
	switch s.kind {
	case value:
		for i, n := range numbers {
			text = fmt.Sprintf("mutated(%d, %s, %s)", n, text, is[i])
		}
		return text
	case statement:
		return fmt.Sprintf("if activeMutant != %d { %s }", numbers[0], text)
	}
	var others, chosen strings.Builder
	for i, n := range numbers {
		fmt.Fprintf(&others, "activeMutant != %d && ", n)
		fmt.Fprintf(&chosen, " || activeMutant == %d && (%s)", n, is[i])
	}
	return "(" + others.String() + "(" + text + ")" + chosen.String() + ")"
}

func short(text string) string { return strings.Join(strings.Fields(text), " ") }
