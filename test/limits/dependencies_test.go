package limits

import (
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"testing"
)

// archived are modules that nobody maintains any more, and the files that still need one because an API of Cluster API's has its types.
// Elsewhere internal/core/version knows versions.
var archived = map[string][]string{
	"github.com/blang/semver/v4": {"internal/cluster/kubeadm/configuration.go"},
	"github.com/pkg/errors":      {},
	"github.com/gogo/protobuf":   {},
	"github.com/golang/protobuf": {},
	"gopkg.in/yaml.v2":           {},
	"gopkg.in/yaml.v3":           {},
}

// TestArchived: what nobody mends is imported only where an API leaves no choice.
func TestArchived(t *testing.T) {
	needed := map[string]bool{}
	for _, s := range read(t, "../..") {
		if within(s.path, "tools") {
			continue // modules of their own
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", s.path), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			module := i.Path.Value[1 : len(i.Path.Value)-1]
			files, is := archived[module]
			if !is {
				continue
			}
			needed[s.path] = true
			if !slices.Contains(files, s.path) {
				t.Errorf("%s imports %s, which is archived", s.path, module)
			}
		}
	}
	for module, files := range archived {
		for _, file := range files {
			if !needed[file] {
				t.Errorf("%s does not import %s any more: strike it off the list", file, module)
			}
		}
	}
}
