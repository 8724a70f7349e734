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
func (s *scene) machineConditions(m *observedMachine) []metav1.Condition {
	var remote []metav1.Condition
	for _, c := range m.facts.Components {
		remote = append(remote, s.podCondition(m, c))
	}
	remote = append(remote, s.nodeCondition(m))
	if s.observed.Etcd.Managed {
		remote = append(remote, s.memberCondition(m))
	}
	return append(upToDate(m), s.unless(m.Machine, remote)...)
}

// upToDate says whether the machine is as the spec wants it, and in what it is not. Empty
// where that was not looked at: what was said last stays, while all of them are deleted.
func upToDate(m *observedMachine) []metav1.Condition {
	if m.drift == nil {
		return nil
	}
	kind := clusterv1.MachineUpToDateCondition
	kubelet := ""
	if m.Status.NodeInfo != nil {
		kubelet = m.Status.NodeInfo.KubeletVersion
	}
	switch {
	case m.drift.Outdated():
		return []metav1.Condition{condition(kind, metav1.ConditionFalse, clusterv1.MachineNotUpToDateReason, entries(m.drift.Texts(), "; ", longestDifferences))}
	case m.facts.Updating != "":
		return []metav1.Condition{condition(kind, metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason, "* "+m.facts.Updating)}
	case kubelet != "" && kubelet != m.Spec.Version:
		return []metav1.Condition{condition(kind, metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason,
			fmt.Sprintf("* The kubelet has version %s, wanted %s", kubelet, m.Spec.Version))}
	}
	return []metav1.Condition{condition(kind, metav1.ConditionTrue, clusterv1.MachineUpToDateReason, "")}
}

// missingNode says what a machine without a Node waits for; empty when it has one.
func missingNode(m *observedMachine) string {
	switch {
	case m.node != nil:
		return ""
	case m.facts.Failed != "":
		return "The machine failed: " + m.facts.Failed
	case m.facts.Node != "":
		return "Node " + m.facts.Node + " does not exist"
	}
	return "Waiting for its Node"
}

// blind says why nothing can be known of a machine's Node, and with which
// reason that is told; both empty when something can. The reasons are the same words for all conditions.
func (s *scene) blind(m *observedMachine) (reason, why string) {
	switch o := s.observed; {
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
func (s *scene) podCondition(m *observedMachine, c plan.Component) metav1.Condition {
	kind := podConditions[c.Name]
	if m.facts.Deleting {
		return condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachinePodDeletingReason, "Machine is deleting")
	}
	if reason, why := s.blind(m); why != "" {
		return condition(kind, metav1.ConditionUnknown, reason, why)
	}
	pod := findPod(s.view.Pods, c.Name+"-"+m.node.Name)
	switch {
	case c.Health == plan.Healthy:
		return condition(kind, metav1.ConditionTrue, upstream.KubeadmControlPlaneMachinePodRunningReason, "")
	case nodeReady(m.node) == corev1.ConditionUnknown:
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

// findPod returns the static pod of that name; nil if there is none.
func findPod(pods []corev1.Pod, name string) *corev1.Pod {
	for i := range pods {
		if pods[i].Name == name {
			return &pods[i]
		}
	}
	return nil
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
func (s *scene) nodeCondition(m *observedMachine) metav1.Condition {
	kind := upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition
	node := m.node
	if m.facts.Deleting && node == nil {
		return condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsDeletingReason, "Machine is deleting")
	}
	if reason, why := s.blind(m); why != "" {
		return condition(kind, metav1.ConditionUnknown, reason, why)
	}
	var missing []string
	if _, ok := node.Labels[controlPlaneLabel]; !ok {
		missing = append(missing, "label "+controlPlaneLabel)
	}
	if expectsTaint(m) && !hasTaint(node.Spec.Taints) {
		missing = append(missing, fmt.Sprintf("taint %s:%s", controlPlaneLabel, corev1.TaintEffectNoSchedule))
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
func expectsTaint(m *observedMachine) bool {
	if slices.ContainsFunc(m.Spec.Taints, func(t clusterv1.MachineTaint) bool {
		return t.Key == controlPlaneLabel && t.Effect == corev1.TaintEffectNoSchedule
	}) {
		return true
	}
	if m.config == nil {
		return false
	}
	spec := m.config.Spec
	given := spec.InitConfiguration.NodeRegistration.Taints
	if spec.JoinConfiguration.ControlPlane != nil {
		given = spec.JoinConfiguration.NodeRegistration.Taints
	}
	return given == nil || hasTaint(*given)
}

// hasTaint reports whether the taint of control planes is among those given.
func hasTaint(taints []corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool {
		return t.Key == controlPlaneLabel && t.Effect == corev1.TaintEffectNoSchedule
	})
}

// memberCondition tells of the etcd member on the machine.
func (s *scene) memberCondition(on *observedMachine) metav1.Condition {
	kind := upstream.KubeadmControlPlaneMachineEtcdMemberHealthyCondition
	facts := on.facts
	if facts.Deleting {
		return condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineEtcdMemberDeletingReason, "Machine is deleting")
	}
	if reason, why := s.blind(on); why != "" {
		return condition(kind, metav1.ConditionUnknown, reason, why)
	}
	if !s.observed.Etcd.Known {
		return condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason, cmp.Or(s.observed.Etcd.Why, "The members of etcd are not known"))
	}
	members := plan.Assess(s.observed).Members
	for j, m := range s.observed.Etcd.Members {
		if m.Machine != facts.Name {
			continue
		}
		return healthCondition(kind, members[j].Health, []string{"Member " + m.ID + " " + members[j].Why}, upstream.KubeadmControlPlaneMachineEtcdMemberHealthyReason,
			upstream.KubeadmControlPlaneMachineEtcdMemberNotHealthyReason, upstream.KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason)
	}
	return condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineEtcdMemberNotHealthyReason, "Etcd has no member for Node "+facts.Node)
}
