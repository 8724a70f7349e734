package stacked

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/group/status"
)

// translation is how a condition of v1beta1 follows from one of v1beta2.
type translation struct {
	to   clusterv1.ConditionType
	from string
	// negative: the condition of v1beta2 is True where that of v1beta1 is False.
	negative bool
	// reason and severity are those of v1beta1 where it is False.
	reason   string
	severity clusterv1.ConditionSeverity
}

// translations are the conditions of v1beta1 that say what one of v1beta2 says, with the reasons and severities of upstream's controller.
var translations = []translation{
	{
		to: upstream.AvailableV1Beta1Condition, from: upstream.KubeadmControlPlaneInitializedCondition,
		reason: upstream.WaitingForKubeadmInitV1Beta1Reason, severity: clusterv1.ConditionSeverityInfo,
	}, {
		to: upstream.CertificatesAvailableV1Beta1Condition, from: upstream.KubeadmControlPlaneCertificatesAvailableCondition,
		reason: upstream.CertificatesGenerationFailedV1Beta1Reason, severity: clusterv1.ConditionSeverityWarning,
	}, {
		to: upstream.MachinesReadyV1Beta1Condition, from: upstream.KubeadmControlPlaneMachinesReadyCondition,
		reason: upstream.KubeadmControlPlaneMachinesNotReadyReason, severity: clusterv1.ConditionSeverityInfo,
	}, {
		to: upstream.MachinesSpecUpToDateV1Beta1Condition, from: upstream.KubeadmControlPlaneRollingOutCondition, negative: true,
		reason: upstream.RollingUpdateInProgressV1Beta1Reason, severity: clusterv1.ConditionSeverityWarning,
	}, {
		to: upstream.ControlPlaneComponentsHealthyV1Beta1Condition, from: upstream.KubeadmControlPlaneControlPlaneComponentsHealthyCondition,
		reason: upstream.ControlPlaneComponentsUnhealthyV1Beta1Reason, severity: clusterv1.ConditionSeverityError,
	}, {
		to: upstream.EtcdClusterHealthyV1Beta1Condition, from: upstream.KubeadmControlPlaneEtcdClusterHealthyCondition,
		reason: upstream.EtcdClusterUnhealthyV1Beta1Reason, severity: clusterv1.ConditionSeverityError,
	},
}

// opposite is the status of a condition of the other polarity; what is not here is Unknown.
var opposite = map[metav1.ConditionStatus]metav1.ConditionStatus{
	metav1.ConditionTrue: metav1.ConditionFalse, metav1.ConditionFalse: metav1.ConditionTrue,
}

// longestDeprecated is how many bytes of a message a condition of v1beta1 repeats.
const longestDeprecated = 1 << 10

// retired are conditions of v1beta1 of which upstream's controller alone knows whether they are true. After a take-over they would
// stay as they are.
var retired = []clusterv1.ConditionType{upstream.MachinesCreatedV1Beta1Condition}

// describeDeprecated writes what clients of v1beta1 read. The conditions of v1beta2 must have been written before.
func describeDeprecated(kcp *controlplanev1.KubeadmControlPlane) {
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
	status.ForgetDeprecated(kcp, retired)
	for _, t := range translations {
		t.write(kcp)
	}
	writeResized(kcp)
	v1beta1conditions.SetSummary(kcp, v1beta1conditions.WithConditions(
		upstream.MachinesSpecUpToDateV1Beta1Condition, upstream.ResizedV1Beta1Condition, upstream.MachinesReadyV1Beta1Condition,
		upstream.AvailableV1Beta1Condition, upstream.CertificatesAvailableV1Beta1Condition,
	))
}

// write writes the condition of v1beta1; where there is none of v1beta2 it goes.
func (t translation) write(kcp *controlplanev1.KubeadmControlPlane) {
	from := conditions.Get(kcp, t.from)
	if from == nil {
		status.ForgetDeprecated(kcp, []clusterv1.ConditionType{t.to})
		return
	}
	is, message := from.Status, observe.Cut(from.Message, longestDeprecated)
	if t.negative {
		is = opposite[is]
	}
	switch is {
	case metav1.ConditionTrue:
		v1beta1conditions.MarkTrue(kcp, t.to)
	case metav1.ConditionFalse:
		v1beta1conditions.MarkFalse(kcp, t.to, t.reason, t.severity, "%s", message)
	default:
		v1beta1conditions.MarkUnknown(kcp, t.to, from.Reason, "%s", message)
	}
}

// writeResized writes the condition Resized, which follows from two of v1beta2.
func writeResized(kcp *controlplanev1.KubeadmControlPlane) {
	for _, from := range []struct{ kind, reason string }{
		{upstream.KubeadmControlPlaneScalingUpCondition, upstream.ScalingUpV1Beta1Reason},
		{upstream.KubeadmControlPlaneScalingDownCondition, upstream.ScalingDownV1Beta1Reason},
	} {
		if c := conditions.Get(kcp, from.kind); c != nil && c.Status == metav1.ConditionTrue {
			message, _, _ := strings.Cut(c.Message, "\n")
			v1beta1conditions.MarkFalse(kcp, upstream.ResizedV1Beta1Condition, from.reason, clusterv1.ConditionSeverityWarning, "%s", message)
			return
		}
	}
	v1beta1conditions.MarkTrue(kcp, upstream.ResizedV1Beta1Condition)
}
