package group

import (
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
)

// deprecated are conditions of Machines of v1beta1 that only upstream's controller keeps. After a take-over they would say
// for ever what they said last. Cluster API's core does without them, and upstream's
// controller writes them again.
var deprecated = []clusterv1.ConditionType{
	upstream.MachineAPIServerPodHealthyV1Beta1Condition,
	upstream.MachineControllerManagerPodHealthyV1Beta1Condition,
	upstream.MachineSchedulerPodHealthyV1Beta1Condition,
	upstream.MachineEtcdPodHealthyV1Beta1Condition,
	upstream.MachineEtcdMemberHealthyV1Beta1Condition,
}

// forgetDeprecated takes them off a Machine.
func forgetDeprecated(m *clusterv1.Machine) {
	for _, kind := range deprecated {
		if v1beta1conditions.Has(m, kind) { // Delete changes what has none, too
			v1beta1conditions.Delete(m, kind)
		}
	}
}
