package act

import (
	"context"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/quorate/quorate/internal/cluster/machine"
)

// Client writes in the management cluster. Nothing else that takes turns of groups does.
type Client struct{ to client.Client }

// NewClient returns a Client that writes through another.
func NewClient(to client.Client) Client { return Client{to} }

// Create makes an object.
func (c Client) Create(ctx context.Context, o client.Object) error { return c.to.Create(ctx, o) }

// Merge writes in what an object differs from what it was before, whatever others have written meanwhile.
func (c Client) Merge(ctx context.Context, before, after client.Object) error {
	return c.to.Patch(ctx, after, client.MergeFrom(before))
}

// Change is Merge for an object that must not have changed since it was read: then the error is a conflict.
func (c Client) Change(ctx context.Context, before, after client.Object) error {
	return c.to.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// Delete deletes an object, of this very UID; unchanged: and of this very version, which else is a conflict.
func (c Client) Delete(ctx context.Context, o client.Object, unchanged bool) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	only := client.Preconditions{UID: &uid}
	if unchanged {
		only.ResourceVersion = &version
	}
	return c.to.Delete(ctx, o.DeepCopyObject().(client.Object), only)
}

// MergeStatus is Merge for the status of an object, and ChangeStatus Change.
func (c Client) MergeStatus(ctx context.Context, before, after client.Object) error {
	return c.to.Status().Patch(ctx, after, client.MergeFrom(before))
}

// ChangeStatus is Change for the status of an object.
func (c Client) ChangeStatus(ctx context.Context, before, after client.Object) error {
	return c.to.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// AddFinalizer adds a finalizer to an object that must not have changed since it was read.
func (c Client) AddFinalizer(ctx context.Context, o client.Object, name string) error {
	after := o.DeepCopyObject().(client.Object)
	controllerutil.AddFinalizer(after, name)
	return c.Change(ctx, o, after)
}

// conditionsOwner is who owns the conditions of Machines that are ours alone.
const conditionsOwner = client.FieldOwner("quorate-machine-conditions")

// ApplyConditions writes what of a Machine's conditions differs, and what the API server answers into after. Cluster API's controllers
// write the status as often as we do: conditions that are ours alone are applied, which no write of theirs contradicts. Where another
// differs, or one goes, the whole list is written, if there was no other write meanwhile.
func (c Client) ApplyConditions(ctx context.Context, before, after *clusterv1.Machine) error {
	applied := before.DeepCopy()
	var ours []any
	for _, one := range after.Status.Conditions {
		if machine.OnlyControlPlaneWrites(one.Type) {
			conditions.Set(applied, one)
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&one)
			if err != nil {
				return err
			}
			ours = append(ours, content)
		}
	}
	if !equality.Semantic.DeepEqual(applied.Status, after.Status) {
		return c.ChangeStatus(ctx, before, after)
	}
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": before.Namespace, "name": before.Name, "uid": string(before.UID)},
		"status":   map[string]any{"conditions": ours},
	}}
	u.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
	// As a patch of an object, which those who count and break writes in tests see.
	if err := c.to.Status().Patch(ctx, u, client.Apply, conditionsOwner, client.ForceOwnership); err != nil { //nolint:staticcheck // see above
		return err
	}
	*after = clusterv1.Machine{}
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, after)
}
