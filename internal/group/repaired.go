package group

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/quorate/quorate/internal/core/plan"
)

// endRepair takes the note of a repair off the control plane once the repair is over. Create
// does so too, but its write may fail, or the process die before it.
func (t *Writer) endRepair(ctx context.Context, d plan.Decision) error {
	if !t.staleRepair(d) {
		return nil
	}
	return t.Annotate(ctx, map[string]string{upstream.RemediationInProgressAnnotation: ""})
}

// staleRepair reports whether the control plane notes a repair that is over: another machine
// was made for the one that was given up, or none is missing, nor will be made by a rollout. A note that cannot be read
// is stale; one that was written for the step just taken is not.
func (t *Writer) staleRepair(d plan.Decision) bool {
	if _, noted := t.Object.GetAnnotations()[upstream.RemediationInProgressAnnotation]; !noted || d.Step.Repair {
		return false
	}
	given := ReplacementIn(t.Object.GetAnnotations(), upstream.RemediationInProgressAnnotation)
	if given == nil {
		return true
	}
	staying := 0
	for _, m := range t.Machines {
		if m.DeletionTimestamp.IsZero() {
			staying++
		}
		if isMadeFor(m, given) {
			return true
		}
	}
	wanted := t.Facts.Want.Replicas
	if t.rollsOutAfter(given) {
		wanted += t.Facts.Policy.Surge
	}
	return staying >= wanted
}

// isMadeFor reports whether a machine was made for one that was given up.
func isMadeFor(m *Machine, given *Replacement) bool {
	made := ReplacementIn(m.Annotations, upstream.RemediationForAnnotation)
	return made != nil && made.Machine == given.Machine && made.Timestamp.Equal(&given.Timestamp)
}

// rollsOutAfter reports whether a rollout goes on after a repair: what was given up may have been the machine that it
// made, and the one that it makes next takes its place. Otherwise the limits of the repair would not hold for it.
func (t *Writer) rollsOutAfter(given *Replacement) bool {
	outdated := false
	for _, m := range t.Machines {
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		if m.Name == given.Machine {
			return false
		}
		outdated = outdated || m.Facts.Outdated != ""
	}
	return outdated
}

// LastRemediation returns the repair that goes on, else the newest that one of the machines
// was made for; nil: none is known.
func (t *View) LastRemediation() *Replacement {
	last := ReplacementIn(t.Object.GetAnnotations(), upstream.RemediationInProgressAnnotation)
	if last != nil {
		return last
	}
	for _, m := range t.Machines {
		made := ReplacementIn(m.Annotations, upstream.RemediationForAnnotation)
		if made != nil && (last == nil || last.Timestamp.Before(&made.Timestamp)) {
			last = made
		}
	}
	return last
}

// handBack takes OwnerRemediated off a Machine that nobody wants replaced any more. A health check
// that finds it broken later, and withholds remediation, writes its own verdict only: a condition
// that was left behind would get the machine deleted.
func handBack(on *Machine, m *clusterv1.Machine) {
	if !m.DeletionTimestamp.IsZero() || on.Facts.Marked != "" || conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition) {
		return
	}
	if conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) {
		conditions.Delete(m, clusterv1.MachineOwnerRemediatedCondition)
	}
	if v1beta1conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition) {
		v1beta1conditions.Delete(m, clusterv1.MachineOwnerRemediatedV1Beta1Condition)
	}
}

// ownerRemediated reports of a marked machine what becomes of it. failure is how the step of this turn failed, if it did.
func (t Report) ownerRemediated(on *Machine, d plan.Decision, failure error) metav1.Condition {
	kind, says := clusterv1.MachineOwnerRemediatedCondition, t.Assessed.Remediation
	m := on.Facts
	switch {
	case m.Deleting:
		return Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineRemediationMachineDeletingReason, "Machine is deleting")
	case failure != nil && d.Step.Verb == plan.Delete && d.Step.Machine == m.Name:
		return Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineRemediationInternalErrorReason, "It could not be deleted: "+failure.Error())
	case t.Assessed.Machine(m.Name).Stays:
		return Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineCannotBeRemediatedReason, says)
	}
	return Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineRemediationDeferredReason, says)
}
