package observe

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// Find returns the object in the group's namespace that a field refers to, at the version of its contract; nil: the field is empty, or the
// object does not exist. A *machine.RefusedError is the error for a kind that the field may not name.
// A change of the object, also of its status, brings about a turn.
func (t *Observer) Find(
	ctx context.Context, field machine.Ref, ref clusterv1.ContractVersionedObjectReference,
) (*unstructured.Unstructured, error) {
	return t.find(ctx, field, ref, true)
}

// find is Find; status reports whether changes of the status matter.
func (t *Observer) find(
	ctx context.Context, field machine.Ref, ref clusterv1.ContractVersionedObjectReference, status bool,
) (*unstructured.Unstructured, error) {
	if !ref.IsDefined() {
		return nil, nil
	}
	found, err := field.Find(ctx, noting{t.Cache, t, status}, ref, t.Object.GetNamespace())
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	return found, nil
}

// GetPart reads an object of a machine, of a kind that is known. A change of its metadata or spec brings about a turn.
func (t *Observer) GetPart(ctx context.Context, name string, into client.Object) error {
	return noting{t.Cache, t, false}.Get(ctx, client.ObjectKey{Namespace: t.Object.GetNamespace(), Name: name}, into)
}

// FindPart is Find for an object of a machine, which at names. A reference that is not followed, or whose kind cannot be read, is no reason
// to leave what must go: the object counts as unknown, and the group begins nothing meanwhile.
func (t *Observer) FindPart(
	ctx context.Context, field machine.Ref, at string, ref clusterv1.ContractVersionedObjectReference,
) (*unstructured.Unstructured, error) {
	found, err := t.find(ctx, field, ref, false)
	if refused := machine.Refused(err); refused != nil {
		t.Refuse(plan.Refusal{Reason: "ReferenceRefused", Message: at + ": " + refused.Error(), Replaceable: true})
		return nil, nil
	}
	return found, err
}

// FindTemplate returns the template that a field of the group's spec names, at being the path of the field, or what is wrong with it.
func (t *Observer) FindTemplate(
	ctx context.Context, field machine.Ref, at string, ref clusterv1.ContractVersionedObjectReference,
) (found *unstructured.Unstructured, missing string) {
	found, err := t.find(ctx, field, ref, false)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("%s: %v", at, err)
	case found == nil && ref.IsDefined():
		return nil, fmt.Sprintf("%s: there is no %s %q in namespace %s", at, ref.Kind, ref.Name, t.Object.GetNamespace())
	}
	return found, ""
}

// Made returns the objects of a kind that were made for the group; of no kind there are none.
func (t *Observer) Made(ctx context.Context, gvk schema.GroupVersionKind) ([]client.Object, error) {
	if gvk.Empty() {
		return nil, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := t.Cache.List(ctx, list, t.MadeForGroup()...); err != nil {
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
