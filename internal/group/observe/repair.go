package observe

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// The times after which a machine counts as broken, where the user says nothing.
const (
	NodeStartupSeconds = 1200
	unhealthySeconds   = 300
)

// OfNodes are the checks of machines by their Nodes.
func (h *HealthCheck) OfNodes() clusterv1.MachineHealthCheckChecks {
	timeout := ptr.To(ptr.Deref(h.UnhealthySeconds, unhealthySeconds))
	return clusterv1.MachineHealthCheckChecks{
		NodeStartupTimeoutSeconds: ptr.To(ptr.Deref(h.NodeStartupSeconds, NodeStartupSeconds)),
		UnhealthyNodeConditions: []clusterv1.UnhealthyNodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: timeout},
			{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: timeout},
		},
	}
}

// OfMembers are the checks of machines without Nodes by their members: one that does not do what it did, and one that never came, or
// of which nothing is known.
func (h *HealthCheck) OfMembers() clusterv1.MachineHealthCheckChecks {
	const kind = upstream.KubeadmControlPlaneMachineEtcdMemberHealthyCondition
	return clusterv1.MachineHealthCheckChecks{
		NodeStartupTimeoutSeconds: ptr.To(int32(0)), // never: there will be none
		UnhealthyMachineConditions: []clusterv1.UnhealthyMachineCondition{
			{Type: kind, Status: metav1.ConditionFalse, TimeoutSeconds: ptr.To(ptr.Deref(h.UnhealthySeconds, unhealthySeconds))},
			{Type: kind, Status: metav1.ConditionUnknown, TimeoutSeconds: ptr.To(ptr.Deref(h.NodeStartupSeconds, NodeStartupSeconds))},
		},
	}
}

// Spared is how many machines may be broken at once and the rest keeps the quorum:
// none of one, one of three, two of five. Without a quorum of ours, all but one.
func (s Spec) Spared() int32 {
	replicas := ptr.Deref(s.Replicas, 1)
	if !s.HoldsQuorum {
		return replicas - 1
	}
	return (replicas - 1) / 2
}
