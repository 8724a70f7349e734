package stacked

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
)

// noteRemoval notes on the Machine which of its members is about to be removed. It is done first:
// a process that dies after the removal would leave no trace of it.
func (r *Reconciler) noteRemoval(ctx context.Context, s *scene, m *memory, step plan.Step) error {
	before := s.Machine(step.Machine)
	if before == nil || before.Annotations[controlplanev1.MemberRemovedAnnotation] == step.Member {
		return nil
	}
	after := before.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, controlplanev1.MemberRemovedAnnotation, step.Member)
	if err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(before.Machine, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("noting the removal of member %s on Machine %s: %w", step.Member, before.Name, err)
	}
	s.Replace(after)
	m.writes.ExpectMachine(after)
	return nil
}

// withdrawBootstrap deletes the KubeadmConfig of a Machine that is being deleted and has no
// bootstrap data yet. The bootstrap provider heeds the deletion of its own objects only: it would
// still let the machine join, which could not be let go of before that is seen.
func (r *Reconciler) withdrawBootstrap(ctx context.Context, s *scene, m *group.Machine) error {
	config := kubeadmConfig(m)
	if m.DeletionTimestamp.IsZero() || m.Spec.Bootstrap.DataSecretName != nil || !machine.HasHook(m.Machine) || !managesEtcd(s.kcp) ||
		config == nil || !config.DeletionTimestamp.IsZero() || ptr.Deref(config.Status.Initialization.DataSecretCreated, false) {
		return nil
	}
	// Of this very version: the data may have come meanwhile.
	err := r.Client.Delete(ctx, config.DeepCopy(), client.Preconditions{UID: &config.UID, ResourceVersion: &config.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("withdrawing KubeadmConfig %s: %w", config.Name, err)
	}
	return nil
}

// checkConfigGone notes that a machine gets no bootstrap data any more: it is being deleted, has
// none, and the API server has no KubeadmConfig for it. A cache may not show it yet.
func (r reader) checkConfigGone(ctx context.Context, m *group.Machine) error {
	ref := m.Spec.Bootstrap.ConfigRef
	if m.DeletionTimestamp.IsZero() || m.Spec.Bootstrap.DataSecretName != nil || ref.Kind != "KubeadmConfig" || ref.APIGroup != bootstrapv1.GroupVersion.Group {
		return nil
	}
	err := r.direct.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: ref.Name}, &bootstrapv1.KubeadmConfig{})
	switch {
	case apierrors.IsNotFound(err):
		m.Withdrawn = true
	case err != nil:
		return fmt.Errorf("asking whether KubeadmConfig %s is gone: %w", ref.Name, err)
	}
	return nil
}
