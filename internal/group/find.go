package group

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/external"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Find returns the object in the group's namespace that a reference names, at the version of its contract; nil: nothing is named, or it
// does not exist.
func (t *Turn) Find(ctx context.Context, ref clusterv1.ContractVersionedObjectReference) (*unstructured.Unstructured, error) {
	if !ref.IsDefined() {
		return nil, nil
	}
	found, err := external.GetObjectFromContractVersionedRef(ctx, t.Client, ref, t.Object.GetNamespace())
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	return found, nil
}

// FindTemplate returns the template that a field of the group's spec names, or what is wrong with it.
func (t *Turn) FindTemplate(ctx context.Context, field string, ref clusterv1.ContractVersionedObjectReference) (found *unstructured.Unstructured, missing string) {
	found, err := t.Find(ctx, ref)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("%s: %v", field, err)
	case found == nil && ref.IsDefined():
		return nil, fmt.Sprintf("%s: there is no %s %q in namespace %s", field, ref.Kind, ref.Name, t.Object.GetNamespace())
	}
	return found, ""
}

// Made returns the objects of a kind that were made for the group; of no kind there are none.
func (t *Turn) Made(ctx context.Context, gvk schema.GroupVersionKind) ([]client.Object, error) {
	if gvk.Empty() {
		return nil, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := t.Client.List(ctx, list, t.MadeForGroup()...); err != nil {
		return nil, fmt.Errorf("listing the %s objects of %s: %w", gvk.Kind, t.Object.GetName(), err)
	}
	found := make([]client.Object, len(list.Items))
	for i := range list.Items {
		found[i] = &list.Items[i]
	}
	return found, nil
}

// MadeBy is the kind of what a template makes, by Cluster API's naming.
func MadeBy(template *unstructured.Unstructured) schema.GroupVersionKind {
	gvk := template.GroupVersionKind()
	gvk.Kind = strings.TrimSuffix(gvk.Kind, clusterv1.TemplateSuffix)
	return gvk
}
