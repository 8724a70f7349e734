package command

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Order is a change of one object that a command makes because a person says so. It is data: a command prints it and writes it, and a page
// shows it first and writes the same.
type Order struct {
	Change
	// Says is what the command prints once the order is written.
	Says string
	// Basis says in one line what the order was made of, such as "demo-cp-2: Swap failed".
	Basis string
}

// NewOrder returns the order to change an object by a merge patch, as a field manager.
func NewOrder(kind schema.GroupVersionKind, key client.ObjectKey, manager string, patch map[string]any) Order {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	return Order{Change: Change{Object: object, Manager: manager, Patch: patch}}
}

// Annotate returns the merge patch that sets an annotation.
func Annotate(name, value string) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}}
}

// Remove returns the merge patch that removes an annotation.
func Remove(name string) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: nil}}}
}

// Title is the kind and the name of the order's object.
func (o Order) Title() string { return o.Object.GetKind() + " " + o.Object.GetName() }

// Read reads the metadata of the order's object: which object it is, and its version.
func (o Order) Read(ctx context.Context, c client.Reader) error {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(o.Object.GroupVersionKind())
	if err := c.Get(ctx, client.ObjectKeyFromObject(o.Object), found); err != nil {
		return fmt.Errorf("reading %s: %w", o.Title(), err)
	}
	o.Object.SetUID(found.UID)
	o.Object.SetResourceVersion(found.ResourceVersion)
	o.Object.SetGeneration(found.Generation)
	o.Object.SetAnnotations(found.Annotations)
	return nil
}

// Shown is what a person who confirms an order has seen of its object, in one line: which object, its spec, the annotations that the order
// changes, and the basis. While the line stays the same, the order means the same. The order was read.
func (o Order) Shown() string {
	parts := []string{
		fmt.Sprintf("%s/%s, UID %s, generation %d", o.Object.GetNamespace(), o.Object.GetName(), o.Object.GetUID(), o.Object.GetGeneration()),
	}
	metadata, _ := o.Patch["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(annotations)) {
		value, is := o.Object.GetAnnotations()[name]
		if is {
			parts = append(parts, fmt.Sprintf("annotation %s: %q", name, value))
		} else {
			parts = append(parts, "no annotation "+name)
		}
	}
	return o.Object.GetKind() + " " + strings.Join(append(parts, o.Basis), ", ")
}

// Same returns the change, refused as a conflict if the object was changed after the order was read.
func (o Order) Same() Change {
	patch, metadata := maps.Clone(o.Patch), map[string]any{}
	if given, is := patch["metadata"].(map[string]any); is {
		metadata = maps.Clone(given)
	}
	metadata["resourceVersion"] = o.Object.GetResourceVersion()
	patch["metadata"] = metadata
	return Change{Object: o.Object.DeepCopy(), Patch: patch, Manager: o.Manager}
}
