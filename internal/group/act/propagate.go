package act

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/group/observe"
)

// upkeep writes what follows the group without a step.
type upkeep struct{ *Writer }

// propagate writes into the objects of the machines what follows the group
// without a rollout: labels, annotations, timeouts, taints and readiness gates.
func (t upkeep) propagate(ctx context.Context) error {
	for _, m := range t.Machines {
		wanted := t.Own.InPlace(t.View, m)
		if wanted.Machine.Differs || !t.ownsCurrently(m.Machine) {
			if err := t.propagateMachine(ctx, m, wanted.Machine); err != nil {
				return err
			}
		}
		if err := t.propagateMetadata(ctx, m, wanted); err != nil {
			return err
		}
	}
	return nil
}

// propagateMetadata writes labels and annotations of a machine's bootstrap object and infrastructure.
func (t upkeep) propagateMetadata(ctx context.Context, m *observe.Machine, wanted drift.Changes) error {
	if m.Bootstrap != nil && wanted.Config.Differs {
		if err := t.relabel(ctx, m.Spec.Bootstrap.ConfigRef.Kind, m.Bootstrap, wanted.Config); err != nil {
			return err
		}
	}
	if m.Infrastructure != nil && wanted.Infrastructure.Differs {
		return t.relabel(ctx, m.Infrastructure.GetKind(), m.Infrastructure, wanted.Infrastructure)
	}
	return nil
}

// ownsCurrently reports whether a Machine that stays refers to its group by the version of
// the kind that is served today. Machines of an older controller name an older one.
func (t upkeep) ownsCurrently(m *clusterv1.Machine) bool {
	owner := metav1.GetControllerOf(m)
	return !m.DeletionTimestamp.IsZero() || owner == nil || owner.UID != t.Object.GetUID() ||
		owner.APIVersion == t.Type.GroupVersion().String()
}

// propagateMachine writes a Machine. One that has changed since it was read is left
// to the next turn, which comes soon.
func (t upkeep) propagateMachine(ctx context.Context, on *observe.Machine, wanted drift.MachineChange) error {
	before := on.Machine
	after := before.DeepCopy()
	if wanted.Metadata.Labels != nil {
		after.Labels, after.Annotations = wanted.Metadata.Labels, wanted.Metadata.Annotations
	}
	after.Spec.Deletion, after.Spec.Taints = wanted.Deletion, wanted.Taints
	if after.DeletionTimestamp.IsZero() {
		after.Spec.ReadinessGates = wanted.ReadinessGates
		after.OwnerReferences = util.EnsureOwnerRef(after.OwnerReferences, t.ControllerRef())
	}
	err := t.Change(ctx, before, after)
	if t.LookAgain(err) != nil {
		return fmt.Errorf("writing Machine %s: %w", before.Name, err)
	}
	if err != nil {
		return nil
	}
	on.Machine = after
	t.Memory.Writes.ExpectMachine(after)
	return nil
}

// relabel writes labels and annotations of an object of a kind.
func (t upkeep) relabel(ctx context.Context, kind string, before client.Object, wanted drift.Metadata) error {
	after := before.DeepCopyObject().(client.Object)
	after.SetLabels(wanted.Labels)
	after.SetAnnotations(wanted.Annotations)
	if err := t.Merge(ctx, before, after); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing labels and annotations of %s %s: %w", kind, before.GetName(), err)
	}
	return nil
}
