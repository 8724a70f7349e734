package stacked

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
)

// podConditions are the conditions of a Machine by the name of the static pod that each is about.
var podConditions = map[string]string{
	"etcd":                    upstream.KubeadmControlPlaneMachineEtcdPodHealthyCondition,
	"kube-apiserver":          upstream.KubeadmControlPlaneMachineAPIServerPodHealthyCondition,
	"kube-controller-manager": upstream.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition,
	"kube-scheduler":          upstream.KubeadmControlPlaneMachineSchedulerPodHealthyCondition,
}

// machineConditions returns the conditions of a machine.
func (s *scene) machineConditions(m *group.Machine) []metav1.Condition {
	var remote []metav1.Condition
	for _, c := range m.Facts.Components {
		remote = append(remote, s.podCondition(m, c))
	}
	remote = append(remote, s.nodeCondition(m))
	if s.Facts.Etcd.Managed {
		remote = append(remote, s.memberCondition(m))
	}
	return append(upToDate(m), s.unless(m.Machine, remote)...)
}

// upToDate says whether the machine is as the spec wants it, and in what it is not. Empty
// where that was not looked at: what was said last stays, while all of them are deleted.
func upToDate(m *group.Machine) []metav1.Condition {
	if m.Drift == nil {
		return nil
	}
	kind := clusterv1.MachineUpToDateCondition
	kubelet := ""
	if m.Status.NodeInfo != nil {
		kubelet = m.Status.NodeInfo.KubeletVersion
	}
	switch {
	case m.Drift.Outdated():
		return []metav1.Condition{condition(kind, metav1.ConditionFalse, clusterv1.MachineNotUpToDateReason, entries(m.Drift.Texts(), "; ", longestDifferences))}
	case m.Facts.Updating != "":
		return []metav1.Condition{condition(kind, metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason, "* "+m.Facts.Updating)}
	case kubelet != "" && kubelet != m.Spec.Version:
		return []metav1.Condition{condition(kind, metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason,
			fmt.Sprintf("* The kubelet has version %s, wanted %s", kubelet, m.Spec.Version))}
	}
	return []metav1.Condition{condition(kind, metav1.ConditionTrue, clusterv1.MachineUpToDateReason, "")}
}

// missingNode says what a machine without a Node waits for; empty when it has one.
func missingNode(m *group.Machine) string {
	switch {
	case m.Node != nil:
		return ""
	case m.Facts.Failed != "":
		return "The machine failed: " + m.Facts.Failed
	case m.Facts.Node != "":
		return "Node " + m.Facts.Node + " does not exist"
	}
	return "Waiting for its Node"
}

// blind says why nothing can be known of a machine's Node, and with which
// reason that is told; both empty when something can. The reasons are the same words for all conditions.
func (s *scene) blind(m *group.Machine) (reason, why string) {
	switch o := s.Facts; {
	case !o.Group.Initialized:
		return clusterv1.InspectionFailedReason, "Waiting for the control plane to be initialized"
	case !o.Cluster.Reachable:
		return clusterv1.ConnectionDownReason, "The API server does not answer: " + o.Cluster.Unreachable
	}
	if why := missingNode(m); why != "" {
		return clusterv1.InspectionFailedReason, why
	}
	return "", ""
}

// podCondition tells of one static pod.
func (s *scene) podCondition(m *group.Machine, c plan.Component) metav1.Condition {
	kind := podConditions[c.Name]
	if m.Facts.Deleting {
		return condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachinePodDeletingReason, "Machine is deleting")
	}
	if reason, why := s.blind(m); why != "" {
		return condition(kind, metav1.ConditionUnknown, reason, why)
	}
	pod := machine.FindPod(s.View.Pods, c.Name+"-"+m.Node.Name)
	switch {
	case c.Health == plan.Healthy:
		return condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneMachinePodRunningReason, "")
	case machine.NodeReady(m.Node) == corev1.ConditionUnknown:
		return condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneMachinePodInspectionFailedReason, c.Why)
	case pod == nil:
		return condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachinePodDoesNotExistReason, "Pod does not exist")
	case c.Health == plan.Unknown:
		return condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneMachinePodInspectionFailedReason, c.Why)
	case hasFailed(pod):
		return condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachinePodFailedReason, c.Why)
	}
	return condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachinePodProvisioningReason, c.Why)
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

// nodeCondition tells whether kubeadm's label and taint are on the Node.
func (s *scene) nodeCondition(m *group.Machine) metav1.Condition {
	kind := upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition
	node := m.Node
	if m.Facts.Deleting && node == nil {
		return condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsDeletingReason, "Machine is deleting")
	}
	if reason, why := s.blind(m); why != "" {
		return condition(kind, metav1.ConditionUnknown, reason, why)
	}
	var missing []string
	if _, ok := node.Labels[machine.NodeLabel]; !ok {
		missing = append(missing, "label "+machine.NodeLabel)
	}
	if expectsTaint(m) && !hasTaint(node.Spec.Taints) {
		missing = append(missing, fmt.Sprintf("taint %s:%s", machine.NodeLabel, corev1.TaintEffectNoSchedule))
	}
	if len(missing) > 0 {
		return condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsNotSetReason,
			"Node "+node.Name+" does not have the "+strings.Join(missing, " and the "))
	}
	return condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetReason, "")
}

// expectsTaint reports whether the Node of a machine should have the taint of control planes: its
// Machine says so, or kubeadm put it there, as the machine's own configuration told it. Who
// changes the taints of the spec does not change the machines that are there.
func expectsTaint(m *group.Machine) bool {
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

// memberCondition tells of the etcd member on the machine.
func (s *scene) memberCondition(on *group.Machine) metav1.Condition {
	kind := upstream.KubeadmControlPlaneMachineEtcdMemberHealthyCondition
	facts := on.Facts
	if facts.Deleting {
		return condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineEtcdMemberDeletingReason, "Machine is deleting")
	}
	if reason, why := s.blind(on); why != "" {
		return condition(kind, metav1.ConditionUnknown, reason, why)
	}
	if !s.Facts.Etcd.Known {
		return condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason, cmp.Or(s.Facts.Etcd.Why, "The members of etcd are not known"))
	}
	members := plan.Assess(s.Facts).Members
	for j, m := range s.Facts.Etcd.Members {
		if m.Machine != facts.Name {
			continue
		}
		return healthCondition(kind, members[j].Health, []string{"Member " + m.ID + " " + members[j].Why}, upstream.KubeadmControlPlaneMachineEtcdMemberHealthyReason,
			upstream.KubeadmControlPlaneMachineEtcdMemberNotHealthyReason, upstream.KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason)
	}
	return condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineEtcdMemberNotHealthyReason, "Etcd has no member for Node "+facts.Node)
}
