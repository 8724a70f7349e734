package stacked

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// MachineConditions implements group.Kind.
func (*Kind) MachineConditions(t *observe.View, m *observe.Machine) []metav1.Condition {
	var all []metav1.Condition
	for _, c := range m.Facts.Components {
		all = append(all, podCondition(t, m, c))
	}
	return append(all, nodeCondition(t, m))
}

// podCondition tells of one static pod.
func podCondition(t *observe.View, m *observe.Machine, c plan.Component) metav1.Condition {
	kind := machine.PodConditions[c.Name]
	if m.Facts.Deleting {
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachinePodDeletingReason, "Machine is deleting")
	}
	if reason, why := t.Blind(m); why != "" {
		return observe.Condition(kind, metav1.ConditionUnknown, reason, why)
	}
	pod := machine.FindPod(t.Inside.Pods, c.Name+"-"+m.Node.Name)
	switch {
	case c.Health == plan.Healthy:
		return observe.Condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneMachinePodRunningReason, "")
	case machine.NodeReady(m.Node) == corev1.ConditionUnknown:
		return observe.Condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneMachinePodInspectionFailedReason, c.Why)
	case pod == nil:
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachinePodDoesNotExistReason, "Pod does not exist")
	case c.Health == plan.Unknown:
		return observe.Condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneMachinePodInspectionFailedReason, c.Why)
	case hasFailed(pod):
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachinePodFailedReason, c.Why)
	}
	return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachinePodProvisioningReason, c.Why)
}

// hasFailed reports whether a container of a pod ended with an error, rather than not having come up yet.
func hasFailed(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	for _, c := range pod.Status.ContainerStatuses {
		if t := c.State.Terminated; t != nil {
			return true
		}
		if t := c.LastTerminationState.Terminated; t != nil && t.ExitCode != 0 && c.State.Waiting != nil {
			return true
		}
	}
	return false
}

// nodeCondition reports whether kubeadm's label and taint are on the Node.
func nodeCondition(t *observe.View, m *observe.Machine) metav1.Condition {
	kind := upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition
	node := m.Node
	if m.Facts.Deleting && node == nil {
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsDeletingReason,
			"Machine is deleting")
	}
	if reason, why := t.Blind(m); why != "" {
		return observe.Condition(kind, metav1.ConditionUnknown, reason, why)
	}
	var missing []string
	if _, ok := node.Labels[machine.NodeLabel]; !ok {
		missing = append(missing, "label "+machine.NodeLabel)
	}
	if expectsTaint(m) && !hasTaint(node.Spec.Taints) {
		missing = append(missing, fmt.Sprintf("taint %s:%s", machine.NodeLabel, corev1.TaintEffectNoSchedule))
	}
	if len(missing) > 0 {
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsNotSetReason,
			"Node "+node.Name+" does not have the "+strings.Join(missing, " and the "))
	}
	return observe.Condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetReason, "")
}

// expectsTaint reports whether the Node of a machine should have the taint of control planes: its
// Machine says so, or kubeadm put it there, as the machine's own configuration told it. Who
// changes the taints of the spec does not change the machines that are there.
func expectsTaint(m *observe.Machine) bool {
	if slices.ContainsFunc(m.Spec.Taints, func(t clusterv1.MachineTaint) bool {
		return t.Key == machine.NodeLabel && t.Effect == corev1.TaintEffectNoSchedule
	}) {
		return true
	}
	if kubeadmConfig(m) == nil {
		return false
	}
	spec := kubeadmConfig(m).Spec
	given := spec.InitConfiguration.NodeRegistration.Taints
	if spec.JoinConfiguration.ControlPlane != nil {
		given = spec.JoinConfiguration.NodeRegistration.Taints
	}
	return given == nil || hasTaint(*given)
}

// hasTaint reports whether the taint of control planes is among those given.
func hasTaint(taints []corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool {
		return t.Key == machine.NodeLabel && t.Effect == corev1.TaintEffectNoSchedule
	})
}
