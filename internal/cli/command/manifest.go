package command

import (
	"context"
	"fmt"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// Exists reports whether an object that another refers to is there.
func Exists(ctx context.Context, c client.Client, r manifest.Reference) (bool, error) {
	mapping, err := c.RESTMapper().RESTMapping(r.GroupKind)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	found, err := Get(ctx, c, mapping.GroupVersionKind, r.ObjectKey)
	return found != nil, err
}

// Get reads an object of any kind; nil when there is none.
func Get(ctx context.Context, c client.Reader, kind schema.GroupVersionKind, key client.ObjectKey) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	err := c.Get(ctx, key, o)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", kind.Kind, key.Name, err)
	}
	return o, nil
}
