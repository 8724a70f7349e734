package status

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

// ForgetDeprecated takes conditions of v1beta1 off an object. One that has none of them stays as it is, which v1beta1conditions.Delete does
// not see to.
func ForgetDeprecated(of v1beta1conditions.Setter, kinds []clusterv1.ConditionType) {
	for _, kind := range kinds {
		if v1beta1conditions.Has(of, kind) {
			v1beta1conditions.Delete(of, kind)
		}
	}
}
