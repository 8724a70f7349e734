package act

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	"github.com/quorate/quorate/internal/cluster/machine"
)

// adopt makes a Machine without a controller the group's own. The Machine is
// written last: a step that was cut short before is repeated, and does what is left.
func (t *Writer) adopt(ctx context.Context, name string) error {
	target := t.Other(name)
	if target == nil {
		return fmt.Errorf("adopting Machine %s: it is none without an owner", name)
	}
	if err := t.Remains(ctx); err != nil {
		return err
	}
	if err := t.performer.Steps().Adopt(ctx, t, target); err != nil {
		return err
	}
	return t.adoptMachine(ctx, target)
}

// adoptMachine writes into a Machine whose it is. Other owners stay.
func (t *Writer) adoptMachine(ctx context.Context, before *clusterv1.Machine) error {
	after := before.DeepCopy()
	after.Labels = t.Identified(before.Labels)
	after.OwnerReferences = util.EnsureOwnerRef(after.OwnerReferences, t.ControllerRef())
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	if after.DeletionTimestamp.IsZero() {
		after.Annotations[machine.Hook] = "" // its member may vote
	}
	if err := t.Change(ctx, before, after); err != nil {
		return fmt.Errorf("adopting Machine %s: %w", before.Name, err)
	}
	t.Memory.Writes.ExpectMachine(after)
	return nil
}

// Remains makes sure that the group's object is not being deleted: else the error is a conflict. The machines of one that
// was deleted without its dependents lose their owner, which a cache may show first.
func (t *Writer) Remains(ctx context.Context) error {
	live := t.Kind.New()
	err := t.APIReader.Get(ctx, t.Key(), live)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("asking whether %s remains: %w", t.Title(), err)
	}
	if err != nil || live.GetUID() != t.Object.GetUID() || !live.GetDeletionTimestamp().IsZero() {
		kind := t.Type
		resource := schema.GroupResource{Group: kind.Group, Resource: kind.Resource}
		return apierrors.NewConflict(resource, t.Object.GetName(), errors.New("it is being deleted, and takes no more objects"))
	}
	return nil
}
