package stacked

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/drift"
	"github.com/quorate/quorate/internal/group"
)

// propagate writes into the objects of the machines what follows the control plane
// without a rollout: labels, annotations, timeouts, taints and readiness gates.
func (r *Reconciler) propagate(ctx context.Context, s *scene, m *memory) error {
	for _, on := range s.Machines {
		if err := r.withdrawBootstrap(ctx, s, on); err != nil {
			return err
		}
		part := partsOf(on)
		wanted := drift.InPlace(s.kcp, s.Cluster.Name, part)
		if wanted.Machine.Differs || !ownsCurrently(s.kcp, part.Machine) {
			if err := r.propagateMachine(ctx, s, m, on, wanted.Machine); err != nil {
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

// ownsCurrently reports whether a Machine that stays refers to its control plane by the version of
// the kind that is served today. Machines of an older controller name an older one.
func ownsCurrently(kcp *controlplanev1.KubeadmControlPlane, m *clusterv1.Machine) bool {
	owner := metav1.GetControllerOf(m)
	return !m.DeletionTimestamp.IsZero() || owner == nil || owner.UID != kcp.UID || owner.APIVersion == controlplanev1.GroupVersion.String()
}

// propagateMachine writes a Machine. One that has changed since it was read is left
// to the next turn, which its change brings about.
func (r *Reconciler) propagateMachine(ctx context.Context, s *scene, m *memory, on *group.Machine, wanted drift.MachineChange) error {
	before := on.Machine
	after := before.DeepCopy()
	if wanted.Metadata.Labels != nil {
		after.Labels, after.Annotations = wanted.Metadata.Labels, wanted.Metadata.Annotations
	}
	after.Spec.Deletion, after.Spec.Taints = wanted.Deletion, wanted.Taints
	if after.DeletionTimestamp.IsZero() {
		after.Spec.ReadinessGates = wanted.ReadinessGates
		after.OwnerReferences = util.EnsureOwnerRef(after.OwnerReferences, controllerRef(s.kcp))
	}
	err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing Machine %s: %w", before.Name, err)
	}
	on.Machine = after
	m.writes.ExpectMachine(after)
	return nil
}

// relabel writes labels and annotations of an object.
func (r *Reconciler) relabel(ctx context.Context, before client.Object, wanted drift.Metadata) error {
	after := before.DeepCopyObject().(client.Object)
	after.SetLabels(wanted.Labels)
	after.SetAnnotations(wanted.Annotations)
	return client.IgnoreNotFound(r.Client.Patch(ctx, after, client.MergeFrom(before)))
}
