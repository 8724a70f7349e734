package compatibility

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// ownMetadata matches the names of annotations, labels and finalizers in the groups of Cluster API and Quorate, and prefixes of names that
// end in a digest.
var ownMetadata = regexp.MustCompile(
	`^(([a-z]+\.)*cluster\.x-k8s\.io|backup\.quorate\.io)/[a-zA-Z0-9][a-zA-Z0-9._-]*$|^(decision|decided-by)\.quorate\.io/$`)

// upstreamMetadata are names of constants that are Cluster API's own, which Quorate writes as Cluster API means them.
var upstreamMetadata = []string{"cluster.x-k8s.io/provider", "kubeadm.controlplane.cluster.x-k8s.io/aggregate-to-manager"}

// declaredMetadata returns the values of all constants of the programs that are names of metadata, and where each is declared.
func declaredMetadata(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, folder := range []string{"api", "internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				declared, is := n.(*ast.GenDecl)
				if !is || declared.Tok != token.CONST {
					return true
				}
				ast.Inspect(declared, func(n ast.Node) bool {
					if literal, is := n.(*ast.BasicLit); is && literal.Kind == token.STRING {
						if value, err := strconv.Unquote(literal.Value); err == nil && ownMetadata.MatchString(value) {
							all[value] = path
						}
					}
					return true
				})
				return false
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestMetadata: docs/compatibility.md has each annotation, label and finalizer that the programs name, and no other.
func TestMetadata(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/compatibility.md"), "\n## Metadata that Quorate writes\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\| [^|]+ \\| [^|]+ \\|$").FindAllStringSubmatch(section, -1) {
		listed = append(listed, strings.TrimSuffix(row[1], "DIGEST"))
	}
	declared := declaredMetadata(t)
	if len(declared) < 20 {
		t.Fatalf("only %d names are found in the sources", len(declared))
	}
	for name, path := range declared {
		if !slices.Contains(listed, name) && !slices.Contains(upstreamMetadata, name) {
			t.Errorf("docs/compatibility.md does not say who writes %s (%s), on what, and until when", name, path)
		}
	}
	for i, name := range listed {
		if _, is := declared[name]; !is {
			t.Errorf("docs/compatibility.md lists %s, which no program names", name)
		}
		if slices.Contains(listed[:i], name) {
			t.Errorf("docs/compatibility.md lists %s twice", name)
		}
	}
}
