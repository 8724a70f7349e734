package limits

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// TestOneManager: only package manager makes managers, whose clients and recorders clean what is written for people; and nobody makes
// recorders of events by itself. What a new controller quotes from a managed cluster leaves through package outgoing that way.
func TestOneManager(t *testing.T) {
	makers := map[string]string{"NewManager": "internal/manager", "NewBroadcaster": "", "GetEventRecorderFor": ""}
	found := 0
	for _, s := range read(t, "../..") {
		if !within(s.path, "internal") && !within(s.path, "cmd") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", s.path), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, is := n.(*ast.CallExpr)
			if !is {
				return true
			}
			name, is := call.Fun.(*ast.SelectorExpr)
			if !is {
				return true
			}
			if allowed, listed := makers[name.Sel.Name]; listed {
				found++
				if filepath.Dir(s.path) != allowed {
					t.Errorf(
						"%s calls %s: what controllers write for people goes through the manager of manager.New",
						s.path,
						name.Sel.Name,
					)
				}
			}
			return true
		})
	}
	if found == 0 {
		t.Error("nobody makes a manager: this test looks for the wrong names")
	}
}
