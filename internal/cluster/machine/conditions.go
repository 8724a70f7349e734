package machine

import (
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// OnlyControlPlaneWrites reports whether a type of condition of a control plane's Machine is written by the control plane's controller
// alone.
func OnlyControlPlaneWrites(condition string) bool {
	switch condition {
	case clusterv1.MachineUpToDateCondition,
		upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition,
		upstream.KubeadmControlPlaneMachineAPIServerPodHealthyCondition,
		upstream.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition,
		upstream.KubeadmControlPlaneMachineSchedulerPodHealthyCondition,
		upstream.KubeadmControlPlaneMachineEtcdPodHealthyCondition,
		upstream.KubeadmControlPlaneMachineEtcdMemberHealthyCondition:
		return true
	}
	return false
}

// Unread reports whether no decision and no report rests on a type of condition of a Machine: Nodes themselves tell it sooner, or the
// objects say it.
func Unread(condition string) bool {
	switch condition {
	case clusterv1.MachineNodeReadyCondition, clusterv1.MachineNodeHealthyCondition, clusterv1.PausedCondition:
		return true
	}
	return false
}
