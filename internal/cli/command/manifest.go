package command

import (
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quorate/quorate/internal/cli/manifest"
)

// ReadManifest reads the objects of a file that -f names; - is standard input.
func (a *Invocation) ReadManifest(name string) ([]*unstructured.Unstructured, error) {
	if name == "-" {
		return manifest.Parse(a.In, "standard input")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("-f: %w", err)
	}
	defer func() { _ = f.Close() }()
	return manifest.Parse(f, name)
}
