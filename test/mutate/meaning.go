package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/core/plan"
)

// A meaning is a sabotage of what the rules are about, and not of one sign of their text: a guard
// is forgotten, unknown counts as healthy, two rules change places.
type meaning struct {
	number int
	says   string
	edits  []change // of the rules
	check  []change // of the second key
	swap   int      // 1 + the index of a rule that changes places with the next; 0: none does
	// excuse says why neither a world nor the model can see it; empty: one of them must.
	excuse string
	// equal says why nothing can see it: it decides nothing else. Such a one is not counted.
	equal string
	by    []string // the stages that caught it
	said  string   // by the last of them
}

// A change is made in one function: was, which must be there once, becomes is.
type change struct{ function, was, is string }

// String names the sabotage.
func (m *meaning) String() string { return fmt.Sprintf("%d %s", m.number, m.says) }

// isSeen: a world or the model caught it.
func (m *meaning) isSeen() bool {
	return slices.Contains(m.by, "worlds") || slices.Contains(m.by, "model")
}

// swaps are the sabotages that change the order of rules: each pair of neighbours.
func swaps() []meaning {
	rules := plan.Rules()
	var all []meaning
	for i := range len(rules) - 1 {
		pair := rules[i+1].Name + " before " + rules[i].Name
		m := meaning{says: "order: " + pair, swap: i + 1, excuse: likeRows[pair], equal: likeAll[pair]}
		all = append(all, m)
	}
	return all
}

// renumber gives each sabotage its number.
func renumber(all []meaning) {
	for i := range all {
		all[i].number = i + 1
	}
}

// clone is a function as a sabotage leaves it, beside the one that is.
type clone struct {
	number int
	text   string
}

// source is a package's text, file by file, and its functions.
type source struct {
	fset  *token.FileSet
	files map[string][]byte
	decls map[string][]*ast.FuncDecl // by name
	in    map[*ast.FuncDecl]string   // the file of each
}

func readSource(dir string) (*source, error) {
	s := &source{token.NewFileSet(), map[string][]byte{}, map[string][]*ast.FuncDecl{}, map[*ast.FuncDecl]string{}}
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		if s.files[name], err = os.ReadFile(name); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
		file, err := parser.ParseFile(s.fset, name, s.files[name], 0)
		if err != nil {
			return nil, fmt.Errorf("parsing %s: %w", name, err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				s.decls[f.Name.Name] = append(s.decls[f.Name.Name], f)
				s.in[f] = name
			}
		}
	}
	return s, nil
}

// text is the source of a piece of syntax in a function's file.
func (s *source) text(f *ast.FuncDecl, from, to token.Pos) string {
	return string(s.files[s.in[f]][s.fset.Position(from).Offset:s.fset.Position(to).Offset])
}

// find returns the function in which a change is to be made: it fails where the text is not there
// exactly once, because the code has changed since.
func (s *source) find(c change) (*ast.FuncDecl, error) {
	var found *ast.FuncDecl
	n := 0
	for _, f := range s.decls[c.function] {
		if k := strings.Count(s.text(f, f.Body.Pos(), f.Body.End()), c.was); k > 0 {
			found, n = f, n+k
		}
	}
	if n != 1 {
		return nil, fmt.Errorf("%q is %d times in %s, not once: the sabotage must follow the code", c.was, n, c.function)
	}
	return found, nil
}

// key is a package that can be sabotaged, and what each sabotage changes in it.
type key struct {
	pkg   string
	edits func(*meaning) []change
	more  func([]meaning) string // what it gets beside that
}

// keys are the rules and the second key.
var keys = []key{
	{"plan", func(m *meaning) []change { return m.edits }, func(all []meaning) string { return comparing + reordering(all) }},
	{"check", func(m *meaning) []change { return m.check }, func([]meaning) string { return "" }},
}

// overlayMeanings writes the packages of both keys again.
func overlayMeanings(root, work string, all []meaning, overlay map[string]string) error {
	for _, k := range keys {
		if err := k.overlay(filepath.Join(root, "internal/core", k.pkg), work, all, overlay); err != nil {
			return fmt.Errorf("package %s: %w", k.pkg, err)
		}
	}
	return nil
}

// overlay writes the package again: beside each function that a sabotage changes one
// that is changed, which is called in its stead while that sabotage is active.
func (k key) overlay(dir, work string, all []meaning, overlay map[string]string) error {
	s, err := readSource(dir)
	if err != nil {
		return err
	}
	clones, err := s.clones(all, k.edits)
	if err != nil {
		return err
	}
	for name, src := range s.files {
		text, err := s.rewrite(name, src, clones)
		if err != nil {
			return err
		}
		if err := put(work, "meaning_"+k.pkg, name, text, overlay); err != nil {
			return err
		}
	}
	return put(work, "meaning_"+k.pkg, filepath.Join(dir, "mutant.go"), fmt.Sprintf(support, k.pkg)+k.more(all), overlay)
}

// clones are what the sabotages make of each function that they change.
func (s *source) clones(all []meaning, edits func(*meaning) []change) (map[*ast.FuncDecl][]clone, error) {
	clones := map[*ast.FuncDecl][]clone{}
	for i := range all {
		made := map[*ast.FuncDecl]string{} // what one sabotage makes of each function
		for _, c := range edits(&all[i]) {
			f, err := s.find(c)
			if err != nil {
				return nil, fmt.Errorf("sabotage %q: %w", all[i].says, err)
			}
			if made[f] == "" {
				made[f] = s.text(f, f.Body.Pos(), f.Body.End())
			}
			made[f] = strings.Replace(made[f], c.was, c.is, 1)
		}
		for f, text := range made {
			clones[f] = append(clones[f], clone{all[i].number, text})
		}
	}
	return clones, nil
}

// reordering is a function in Go that changes the order of the rules as the active sabotage says.
func reordering(all []meaning) string {
	var order strings.Builder
	order.WriteString("\nfunc init() { reorder(activeMutant) }\n\nfunc reorder(n int) {\n\tswitch n {\n")
	for _, m := range all {
		if m.swap > 0 {
			fmt.Fprintf(&order, "\tcase %d:\n\t\trules[%d], rules[%d] = rules[%d], rules[%d]\n", m.number, m.swap-1, m.swap, m.swap, m.swap-1)
		}
	}
	order.WriteString("\t}\n}\n")
	return order.String()
}

// rewrite is a file with the changed functions in it.
func (s *source) rewrite(name string, src []byte, clones map[*ast.FuncDecl][]clone) (string, error) {
	var b bytes.Buffer
	var after strings.Builder
	at := 0
	for _, f := range s.changed(name, clones) {
		call, err := s.call(f)
		if err != nil {
			return "", err
		}
		body := s.fset.Position(f.Body.Lbrace).Offset + 1
		b.Write(src[at:body])
		at = body
		b.WriteString("\n\tswitch activeMutant {\n")
		before := s.text(f, f.Pos(), f.Name.Pos())
		kind := s.text(f, f.Name.End(), f.Body.Pos())
		for _, c := range clones[f] {
			as := fmt.Sprintf("%s_%d", f.Name.Name, c.number)
			fmt.Fprintf(&b, "\tcase %d:\n", c.number)
			if f.Type.Results == nil {
				fmt.Fprintf(&b, "\t\t%s\n\t\treturn\n", fmt.Sprintf(call, as))
			} else {
				fmt.Fprintf(&b, "\t\treturn %s\n", fmt.Sprintf(call, as))
			}
			fmt.Fprintf(&after, "\n%s%s%s%s\n", before, as, kind, c.text)
		}
		b.WriteString("\t}\n")
	}
	b.Write(src[at:])
	b.WriteString(after.String())
	if next := "func Next(o Observed) Decision {"; strings.Contains(b.String(), next) {
		with := strings.Replace(b.String(), next, next+"\n\tif compared > 0 {\n\t\treturn compare(o)\n\t}", 1)
		b.Reset()
		b.WriteString(with)
	}
	text, err := format.Source(b.Bytes())
	if err != nil {
		return "", fmt.Errorf("a sabotage of %s is no Go: %w", filepath.Base(name), err)
	}
	return string(text), nil
}

// changed are the functions of a file that have clones, in their order.
func (s *source) changed(name string, clones map[*ast.FuncDecl][]clone) []*ast.FuncDecl {
	funcs := make([]*ast.FuncDecl, 0, len(clones))
	for f := range clones {
		if s.in[f] == name {
			funcs = append(funcs, f)
		}
	}
	slices.SortFunc(funcs, func(a, b *ast.FuncDecl) int { return int(a.Pos() - b.Pos()) })
	return funcs
}

// call is how a function is called with its own arguments, with %s for its name.
func (s *source) call(f *ast.FuncDecl) (string, error) {
	text := "%s("
	if f.Recv != nil {
		text = f.Recv.List[0].Names[0].Name + "." + text
	}
	var args []string
	for _, p := range f.Type.Params.List {
		if len(p.Names) == 0 {
			return "", fmt.Errorf("%s has an argument without a name", f.Name.Name)
		}
		for _, n := range p.Names {
			arg := n.Name
			if _, many := p.Type.(*ast.Ellipsis); many {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	return text + strings.Join(args, ", ") + ")", nil
}
