package limits

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestKubeconfigsAreReadInOnePlace: client-go's loaders obey commands and paths in a kubeconfig. Only
// internal/cluster/kubeconfig, which refuses these, may call them; others may write kubeconfigs.
func TestKubeconfigsAreReadInOnePlace(t *testing.T) {
	const reader = "internal/cluster/kubeconfig"
	seen := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		path = strings.TrimPrefix(path, "../../")
		for _, name := range clientcmdNames(t, path) {
			seen[filepath.Dir(path)] = true
			if filepath.Dir(path) != reader && name != "Write" {
				t.Errorf("%s uses clientcmd.%s: kubeconfigs are read by %s", path, name, reader)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !seen[reader] {
		t.Errorf("%s does not use clientcmd: this test looks at the wrong place", reader)
	}
}

// clientcmdNames are the names that a file uses of client-go's package clientcmd, under whatever name it imports it.
func clientcmdNames(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", path), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	as := ""
	for _, i := range file.Imports {
		if name, _ := strconv.Unquote(i.Path.Value); name == "k8s.io/client-go/tools/clientcmd" {
			as = "clientcmd"
			if i.Name != nil {
				as = i.Name.Name
			}
		}
	}
	var names []string
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := s.X.(*ast.Ident); ok && as != "" && of.Name == as {
				names = append(names, s.Sel.Name)
			}
		}
		return true
	})
	if as == "." {
		t.Errorf("%s imports clientcmd without a name", path)
	}
	return names
}
