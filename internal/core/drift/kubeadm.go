package drift

import (
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// Kubeadm returns what a KubeadmControlPlane wants its machines to be, except for
// its kubeadmConfigSpec and its deadlines, which Of compares. It shares lists and
// maps with the control plane.
func Kubeadm(kcp *controlplanev1.KubeadmControlPlane) Wanted {
	template := kcp.Spec.MachineTemplate
	stacked := !kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined()
	w := Wanted{
		Name:           kcp.Name,
		Metadata:       template.ObjectMeta,
		Deletion:       clusterv1.MachineDeletionSpec(template.Spec.Deletion),
		Taints:         template.Spec.Taints,
		ReadinessGates: template.Spec.ReadinessGates,
		RequiredGates:  mandatoryGates(stacked),
		RetiredGates:   mandatoryGates(true),
		Version:        kcp.Spec.Version,
		Infrastructure: template.Spec.InfrastructureRef,
	}
	if filter, ok := kcp.Labels[clusterv1.WatchLabel]; ok {
		w.WatchFilter = &filter
	}
	return w
}

// InPlace returns what a KubeadmControlPlane wants its machine to carry while it
// lives, as Wanted.InPlace says.
func InPlace(kcp *controlplanev1.KubeadmControlPlane, cluster string, m Machine) Changes {
	return Kubeadm(kcp).InPlace(cluster, m)
}

// Identity are the labels that say whose a machine is. They win over the user's.
func Identity(kcp *controlplanev1.KubeadmControlPlane, cluster string) map[string]string {
	return IdentityLabels(kcp.Name, cluster)
}

// KubeadmGates are all gates that a KubeadmControlPlane may require of its Machines.
func KubeadmGates() []string { return mandatoryGates(true) }

// mandatoryGates are the conditions of the control plane that a Machine needs to be
// Ready, with those of etcd where it runs on the machines.
func mandatoryGates(etcd bool) []string {
	types := []string{
		upstream.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition,
		upstream.KubeadmControlPlaneMachineAPIServerPodHealthyCondition,
		upstream.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition,
		upstream.KubeadmControlPlaneMachineSchedulerPodHealthyCondition,
	}
	if etcd {
		types = append(types,
			upstream.KubeadmControlPlaneMachineEtcdPodHealthyCondition,
			upstream.KubeadmControlPlaneMachineEtcdMemberHealthyCondition)
	}
	return types
}
