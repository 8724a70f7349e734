package nodeupgrade

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// owned reports whether a NodeUpgrade is ready to be begun: its finalizer is there, and it has its cluster's label and an owner, so that it
// moves and goes with others.
func (s *scope) owned() bool {
	u := s.upgrade
	if !controllerutil.ContainsFinalizer(u, upgradev1.Finalizer) {
		return false
	}
	return s.machine == nil || u.Labels[clusterv1.ClusterNameLabel] != "" && len(u.OwnerReferences) > 0
}

// own makes it so. A NodeUpgrade that a person made belongs to its Machine.
func (c *Controller) own(ctx context.Context, s *scope) error {
	after := s.upgrade.DeepCopy()
	controllerutil.AddFinalizer(after, upgradev1.Finalizer)
	if s.machine != nil {
		if after.Labels == nil {
			after.Labels = map[string]string{}
		}
		if after.Labels[clusterv1.ClusterNameLabel] == "" { // another one is refused
			after.Labels[clusterv1.ClusterNameLabel] = s.machine.Spec.ClusterName
		}
		if len(after.OwnerReferences) == 0 {
			after.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: s.machine.Name,
				UID: s.machine.UID}}
		}
	}
	if err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(s.upgrade, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("adding finalizer and owner to NodeUpgrade %s: %w", s.upgrade.Name, err)
	}
	return nil
}

// disown takes the finalizer off. Of an upgrade that is done that is noted where a move keeps it.
func (c *Controller) disown(ctx context.Context, s *scope) error {
	after := s.upgrade.DeepCopy()
	if !controllerutil.RemoveFinalizer(after, upgradev1.Finalizer) {
		return nil
	}
	if upgradepod.StateOf(after) == upgradepod.Complete {
		upgradepod.MarkCompleted(after)
	}
	if err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(s.upgrade, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(
		err) != nil {
		return fmt.Errorf("removing the finalizer of NodeUpgrade %s: %w", s.upgrade.Name, err)
	}
	return nil
}

// markBegun notes that the upgrade begins where a move keeps it: the controller that looks at it then must find its pod again, and the node
// knows it by its first UID.
func (c *Controller) markBegun(ctx context.Context, s *scope) error {
	after := s.upgrade.DeepCopy()
	if !upgradepod.MarkBegun(after) {
		return nil
	}
	if err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(s.upgrade, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("noting on NodeUpgrade %s that it begins: %w", s.upgrade.Name, err)
	}
	s.upgrade = after
	return nil
}

// holdMachine keeps the MachineHealthCheck from the Machine, whose node is away for a while. Where a person did so already, it stays when
// this ends.
func (c *Controller) holdMachine(ctx context.Context, s *scope) error {
	m := s.machine
	if m == nil || annotations.HasSkipRemediation(m) {
		return nil
	}
	after := m.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation, "")
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, upgradev1.MachineHeldAnnotation, s.upgrade.Name)
	return c.patchMachine(ctx, s, after)
}

// releaseMachine leaves the Machine to the MachineHealthCheck again.
func (c *Controller) releaseMachine(ctx context.Context, s *scope) error {
	if s.machine == nil || s.machine.Annotations[upgradev1.MachineHeldAnnotation] != s.upgrade.Name {
		return nil
	}
	after := s.machine.DeepCopy()
	delete(after.Annotations, clusterv1.MachineSkipRemediationAnnotation)
	delete(after.Annotations, upgradev1.MachineHeldAnnotation)
	return c.patchMachine(ctx, s, after)
}

func (c *Controller) patchMachine(ctx context.Context, s *scope, after *clusterv1.Machine) error {
	if err := c.Client.Patch(ctx, after, client.MergeFrom(s.machine)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing annotations of Machine %s: %w", after.Name, err)
	}
	s.machine = after
	return nil
}
