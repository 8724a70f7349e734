package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// ownerRemediated reports of a marked machine what becomes of it. failure is how the step of this turn failed, if it did.
func (t Report) ownerRemediated(on *observe.Machine, d plan.Decision, failure error) metav1.Condition {
	kind, says := clusterv1.MachineOwnerRemediatedCondition, t.Assessed.Remediation
	m := on.Facts
	switch {
	case m.Deleting:
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineRemediationMachineDeletingReason,
			"Machine is deleting")
	case failure != nil && d.Step.Verb == plan.Delete && d.Step.Machine == m.Name:
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineRemediationInternalErrorReason,
			"It could not be deleted: "+failure.Error())
	case t.Assessed.Machine(m.Name).Stays:
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineCannotBeRemediatedReason, says)
	}
	return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineRemediationDeferredReason, says)
}

// handBack takes OwnerRemediated off a Machine that is not to be replaced any more. A health check
// that finds it broken later, and withholds remediation, writes its own verdict only: a condition
// that was left behind would get the machine deleted.
func handBack(on *observe.Machine, m *clusterv1.Machine) {
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
