package stacked

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/drift"
)

// propagate writes into the objects of the machines what follows the control plane
// without a rollout: labels, annotations, timeouts, taints and readiness gates.
func (r *Reconciler) propagate(ctx context.Context, s *scene, m *memory) error {
	for i, part := range s.parts {
		if err := r.withdrawBootstrap(ctx, s, i); err != nil {
			return err
		}
		wanted := drift.InPlace(s.kcp, s.cluster.Name, part)
		if wanted.Machine.Differs {
			if err := r.propagateMachine(ctx, s, m, i, wanted.Machine); err != nil {
				return err
			}
		}
		if part.Config != nil && wanted.Config.Differs {
			if err := r.relabel(ctx, part.Config, wanted.Config); err != nil {
				return fmt.Errorf("writing labels and annotations of KubeadmConfig %s: %w", part.Config.Name, err)
			}
		}
		if part.Infrastructure != nil && wanted.Infrastructure.Differs {
			if err := r.relabel(ctx, part.Infrastructure, wanted.Infrastructure); err != nil {
				return fmt.Errorf("writing labels and annotations of %s %s: %w", part.Infrastructure.GetKind(), part.Infrastructure.GetName(), err)
			}
		}
	}
	return nil
}

// propagateMachine writes a Machine. One that has changed since it was read is left
// to the next turn, which its change brings about.
func (r *Reconciler) propagateMachine(ctx context.Context, s *scene, m *memory, i int, wanted drift.MachineChange) error {
	before := s.machines[i]
	after := before.DeepCopy()
	if wanted.Metadata.Labels != nil {
		after.Labels, after.Annotations = wanted.Metadata.Labels, wanted.Metadata.Annotations
	}
	after.Spec.Deletion, after.Spec.Taints = wanted.Deletion, wanted.Taints
	if after.DeletionTimestamp.IsZero() {
		after.Spec.ReadinessGates = wanted.ReadinessGates
	}
	err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing Machine %s: %w", before.Name, err)
	}
	s.machines[i] = after
	m.expect(expectation{machine: after.Name, uid: after.UID, version: after.ResourceVersion, since: time.Now()})
	return nil
}

// relabel writes labels and annotations of an object.
func (r *Reconciler) relabel(ctx context.Context, before client.Object, wanted drift.Metadata) error {
	after := before.DeepCopyObject().(client.Object)
	after.SetLabels(wanted.Labels)
	after.SetAnnotations(wanted.Annotations)
	return client.IgnoreNotFound(r.Client.Patch(ctx, after, client.MergeFrom(before)))
}
