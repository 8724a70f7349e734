package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// parse reads the Go files of a folder, without tests.
func parse(dir string) ([]*ast.File, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	var files []*ast.File
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		files = append(files, file)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no Go files", dir)
	}
	return files, nil
}

// constant is a constant with a string, and where it is.
type constant struct {
	name, value string
	// of is the comment of the block in which it is, and says its own.
	of, says string
}

// constants returns the constants of files that are strings. One that is another is given that one's value by known, which may be nil.
func constants(files []*ast.File, known map[string]string) []constant {
	var all []constant
	for _, file := range files {
		for _, d := range file.Decls {
			block, ok := d.(*ast.GenDecl)
			if !ok || block.Tok != token.CONST {
				continue
			}
			for _, s := range block.Specs {
				spec := s.(*ast.ValueSpec)
				for i, name := range spec.Names {
					if i >= len(spec.Values) {
						continue
					}
					says := spec.Doc
					if !block.Lparen.IsValid() {
						says = block.Doc
					}
					if value := valueOf(spec.Values[i], known); value != "" {
						all = append(all, constant{name.Name, value, block.Doc.Text(), says.Text()})
					}
				}
			}
		}
	}
	return all
}

// valueOf is the string that an expression is; empty: none that is known.
func valueOf(e ast.Expr, known map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return ""
		}
		text, err := strconv.Unquote(e.Value)
		if err != nil {
			return ""
		}
		return text
	case *ast.Ident:
		return known[e.Name]
	case *ast.SelectorExpr:
		return known[e.Sel.Name]
	}
	return ""
}

// meaning is what a constant's comment says of it, without its name.
func (c constant) meaning() string {
	text := strings.Join(strings.Fields(c.says), " ")
	text = strings.TrimPrefix(text, c.name+": ")
	return strings.TrimSuffix(text, ".")
}

// golist returns what go list prints of modules or packages: the folders in which they are.
func golist(root string, args ...string) ([]string, error) {
	list := exec.Command("go", append([]string{"list", "-f", "{{.Dir}}"}, args...)...)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", args[len(args)-1], err)
	}
	return strings.Fields(string(out)), nil
}

// upstreamConstants are the constants of Cluster API whose names have an ending, with their values.
func upstreamConstants(root, ending string) (map[string]string, error) {
	dirs, err := golist(root, "sigs.k8s.io/cluster-api/api/core/v1beta2", "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2")
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	for _, dir := range dirs {
		files, err := parse(dir)
		if err != nil {
			return nil, err
		}
		for before := -1; before != len(known); { // some are others that come later
			before = len(known)
			for _, c := range constants(files, known) {
				if strings.HasSuffix(c.name, ending) {
					known[c.name] = c.value
				}
			}
		}
	}
	return known, nil
}

// used returns which constants of Cluster API, which are known, the files of a folder write somewhere. What is only compared, or asked for,
// is not.
func used(dir string, known map[string]string) ([]string, error) {
	files, err := parse(dir)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				return n.Op != token.EQL && n.Op != token.NEQ
			case *ast.SelectorExpr:
				from, ok := n.X.(*ast.Ident)
				if value := known[n.Sel.Name]; ok && value != "" && (from.Name == "upstream" || from.Name == "clusterv1") {
					found = append(found, value)
				}
			}
			return true
		})
	}
	return found, nil
}

// written returns the strings that files of a folder give to fields called Reason, and to the arguments of functions: how many arguments
// come before it, by the function's name.
func written(dir string, functions map[string]int) ([]string, error) {
	files, err := parse(dir)
	if err != nil {
		return nil, err
	}
	var found []string
	add := func(e ast.Expr) {
		if value := valueOf(e, nil); value != "" {
			found = append(found, value)
		}
	}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Reason" {
					add(n.Value)
				}
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if to, ok := left.(*ast.SelectorExpr); ok && to.Sel.Name == "Reason" && len(n.Rhs) == len(n.Lhs) {
						add(n.Rhs[i])
					}
				}
			case *ast.CallExpr:
				if at, ok := functions[called(n)]; ok && at < len(n.Args) {
					add(n.Args[at])
				}
			}
			return true
		})
	}
	return found, nil
}

// called is the name of the function that is called.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}
