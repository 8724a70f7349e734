// Command docs writes the pages of docs that are made from the code: docs/troubleshooting.md, docs/reference, and in docs/compatibility.md
// which test runs which version. It knows where in the sources reasons, fields, conditions and the declarations of tests are; what to do
// about a reason is written by hand, in internal/cli/advice/advice.yaml.
//
// Usage: go run ./hack/docs [ROOT], where ROOT is the folder of the sources.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/quorate/quorate/internal/cli/advice"
)

// page is one file that is written.
type page struct {
	path, text string
}

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := write(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(root string) error {
	all, err := pages(root)
	if err != nil {
		return err
	}
	for _, p := range all {
		path := filepath.Join(root, p.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("making the folder of %s: %w", p.path, err)
		}
		if err := os.WriteFile(path, []byte(p.text), 0o644); err != nil {
			return fmt.Errorf("writing %s: %w", p.path, err)
		}
	}
	return nil
}

// pages are all pages, made from the sources in root.
func pages(root string) ([]page, error) {
	sections, err := collect(root)
	if err != nil {
		return nil, err
	}
	written, err := advice.Read()
	if err != nil {
		return nil, err
	}
	all, err := reference(root)
	if err != nil {
		return nil, err
	}
	compatibility, err := matrix(root)
	return append(all, page{"docs/troubleshooting.md", troubleshooting(sections, written)}, compatibility), err
}
