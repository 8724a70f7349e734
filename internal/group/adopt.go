package group

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
)

// addUncontrolled adds the control plane machines that are not the group's, and what is against their adoption.
func (t *Observer) addUncontrolled(ctx context.Context, others []*clusterv1.Machine) error {
	for _, m := range others {
		against := t.contradiction(m)
		if against == "" {
			var err error
			if against, err = t.Kind.Unadoptable(ctx, t, m); err != nil {
				return err
			}
		}
		t.Facts.Uncontrolled = append(t.Facts.Uncontrolled, plan.UncontrolledMachine{Name: m.Name, Against: against})
	}
	return nil
}

// contradiction says what a Machine's owner and cluster have against its adoption; empty: nothing.
func (t *Observer) contradiction(m *clusterv1.Machine) string {
	if owner := metav1.GetControllerOf(m); owner != nil {
		text := "it is controlled by " + owner.Kind + " " + owner.Name
		if owner.Kind == t.Type.Kind && owner.Name == t.Object.GetName() {
			text += ", which is another than today's (UID " + string(owner.UID) + ")"
		}
		return text
	}
	if m.Spec.ClusterName != t.Cluster.Name {
		return fmt.Sprintf("it belongs to cluster %q by its spec, and to %q by its label", m.Spec.ClusterName, t.Cluster.Name)
	}
	return ""
}

// othersMade reports whether some of the machines were made by others: each of ours has
// a number that was written down before it was made.
func othersMade(format string, last int, ours []*clusterv1.Machine) bool {
	return slices.ContainsFunc(ours, func(m *clusterv1.Machine) bool {
		n := plan.Number(format, m.Name)
		return n == 0 || n > last
	})
}

// adopt makes a Machine that nobody controls the group's own. The Machine is
// written last: a step that was cut short before is repeated, and does what is left.
func (t *Writer) adopt(ctx context.Context, name string) error {
	target := t.Other(name)
	if target == nil {
		return fmt.Errorf("adopting Machine %s: it is none without an owner", name)
	}
	if err := t.Remains(ctx); err != nil {
		return err
	}
	if err := t.performer.Adopt(ctx, t, target); err != nil {
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
		return fmt.Errorf("asking whether %s remains: %w", t.title(), err)
	}
	if err != nil || live.GetUID() != t.Object.GetUID() || !live.GetDeletionTimestamp().IsZero() {
		kind := t.Type
		resource := schema.GroupResource{Group: kind.Group, Resource: kind.Resource}
		return apierrors.NewConflict(resource, t.Object.GetName(), errors.New("it is being deleted, and takes no more objects"))
	}
	return nil
}

// Identified returns labels with those that say whose a machine is.
func (t *View) Identified(labels map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, labels)
	maps.Copy(all, t.identity())
	return all
}
