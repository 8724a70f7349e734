package stacked

import (
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group"
)

// Conditions of v1beta1 that only upstream's controller keeps. After a take-over they would say
// for ever what they said last. Cluster API's core does without them, and upstream's
// controller writes them again.
var (
	deprecatedOfGroup = []clusterv1.ConditionType{
		clusterv1.ReadyV1Beta1Condition,
		upstream.MachinesReadyV1Beta1Condition,
		upstream.CertificatesAvailableV1Beta1Condition,
		upstream.AvailableV1Beta1Condition,
		upstream.MachinesSpecUpToDateV1Beta1Condition,
		upstream.ResizedV1Beta1Condition,
		upstream.ControlPlaneComponentsHealthyV1Beta1Condition,
		upstream.EtcdClusterHealthyV1Beta1Condition,
		upstream.MachinesCreatedV1Beta1Condition,
	}
)

// describeDeprecated writes what clients of the deprecated contract need at least.
func describeDeprecated(kcp *controlplanev1.KubeadmControlPlane) {
	group.ForgetDeprecated(kcp, deprecatedOfGroup)
	if kcp.Status.Deprecated == nil {
		kcp.Status.Deprecated = &upstream.KubeadmControlPlaneDeprecatedStatus{}
	}
	if kcp.Status.Deprecated.V1Beta1 == nil {
		kcp.Status.Deprecated.V1Beta1 = &upstream.KubeadmControlPlaneV1Beta1DeprecatedStatus{}
	}
	old := kcp.Status.Deprecated.V1Beta1
	old.UpdatedReplicas = *kcp.Status.UpToDateReplicas
	old.ReadyReplicas = *kcp.Status.ReadyReplicas
	old.UnavailableReplicas = *kcp.Status.Replicas - *kcp.Status.ReadyReplicas
}
