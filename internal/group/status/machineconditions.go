package status

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// MachineConditions returns the conditions of a machine.
func (t Report) MachineConditions(m *observe.Machine) []metav1.Condition {
	var remote []metav1.Condition
	if own := t.Kind.Reports().MachineConditions; own != nil {
		remote = own(t.View, m)
	}
	if t.Facts.Etcd.Ours() {
		remote = append(remote, t.memberCondition(m))
	}
	return append(upToDate(m), t.unless(m.Machine, remote)...)
}

// upToDate reports whether the machine is as the spec wants it, and in what it is not. Empty
// where that was not looked at: what was said last stays, while all of them are deleted.
func upToDate(m *observe.Machine) []metav1.Condition {
	if m.Drift == nil {
		return nil
	}
	kind := clusterv1.MachineUpToDateCondition
	kubelet := ""
	if m.Status.NodeInfo != nil {
		kubelet = m.Status.NodeInfo.KubeletVersion
	}
	switch {
	case m.Facts.Update.State == plan.UpdateUnderway:
		return []metav1.Condition{observe.Condition(kind, metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason,
			"* "+m.Facts.Update.Message)}
	case m.Drift.Outdated():
		return []metav1.Condition{observe.Condition(kind, metav1.ConditionFalse, clusterv1.MachineNotUpToDateReason,
			observe.Entries(m.Drift.Texts(), "; ", observe.LongestDifferences))}
	case m.Facts.Updating != "":
		return []metav1.Condition{observe.Condition(kind, metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason, "* "+m.Facts.Updating)}
	case kubelet != "" && kubelet != m.Spec.Version:
		return []metav1.Condition{observe.Condition(kind, metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason,
			fmt.Sprintf("* The kubelet has version %s, wanted %s", kubelet, m.Spec.Version))}
	}
	return []metav1.Condition{observe.Condition(kind, metav1.ConditionTrue, clusterv1.MachineUpToDateReason, "")}
}

// hostTitle names what a machine is in the cluster, for people.
func (t Report) hostTitle(m *plan.Machine) string {
	if t.Nodeless {
		return "Machine " + m.Name
	}
	return "Node " + m.Host
}

// memberCondition tells of the etcd member on the machine.
func (t Report) memberCondition(on *observe.Machine) metav1.Condition {
	kind := upstream.KubeadmControlPlaneMachineEtcdMemberHealthyCondition
	facts := on.Facts
	if facts.Deleting {
		return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineEtcdMemberDeletingReason, "Machine is deleting")
	}
	if reason, why := t.Blind(on); why != "" {
		return observe.Condition(kind, metav1.ConditionUnknown, reason, why)
	}
	if !t.Facts.Etcd.Known {
		return observe.Condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason,
			cmp.Or(t.Facts.Etcd.Why, "The members of etcd are not known"))
	}
	if t.Nodeless && facts.Host == "" {
		return observe.Condition(kind, metav1.ConditionUnknown, upstream.KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason,
			"Waiting for a member that votes")
	}
	for _, m := range t.Facts.Etcd.Members {
		if m.Machine != facts.Name {
			continue
		}
		member := t.Assessed.Member(m.ID)
		return observe.HealthCondition(kind, member.Health, []string{"Member " + m.ID + " " + member.Why},
			upstream.KubeadmControlPlaneMachineEtcdMemberHealthyReason,
			upstream.KubeadmControlPlaneMachineEtcdMemberNotHealthyReason, upstream.KubeadmControlPlaneMachineEtcdMemberInspectionFailedReason)
	}
	return observe.Condition(kind, metav1.ConditionFalse, upstream.KubeadmControlPlaneMachineEtcdMemberNotHealthyReason,
		"Etcd has no member for "+t.hostTitle(facts))
}
