package stacked

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// TestConditionsOfV1Beta1: each is what v1beta2 says, in the words of upstream's controller.
func TestConditionsOfV1Beta1(t *testing.T) {
	steady := []string{
		"Available=True", "CertificatesAvailable=True", "ControlPlaneComponentsHealthy=True", "EtcdClusterHealthy=True",
		"MachinesReady=True", "MachinesSpecUpToDate=True", "Ready=True", "Resized=True",
	}
	for name, test := range map[string]struct {
		is   map[string]metav1.ConditionStatus
		want map[string]string
	}{
		"steady": {},
		"not initialised": {
			map[string]metav1.ConditionStatus{"Initialized": metav1.ConditionFalse},
			map[string]string{"Available": "False Info WaitingForKubeadmInit: why", "Ready": "False Info WaitingForKubeadmInit: why"},
		},
		"scaling up while machines are not ready": {
			map[string]metav1.ConditionStatus{"ScalingUp": metav1.ConditionTrue, "MachinesReady": metav1.ConditionFalse},
			map[string]string{"Resized": "False Warning ScalingUp: why", "MachinesReady": "False Info NotReady: why",
				"Ready": "False Warning ScalingUp: why"},
		},
		"scaling down": {
			map[string]metav1.ConditionStatus{"ScalingDown": metav1.ConditionTrue},
			map[string]string{"Resized": "False Warning ScalingDown: why", "Ready": "False Warning ScalingDown: why"},
		},
		"rolling out": {
			map[string]metav1.ConditionStatus{"RollingOut": metav1.ConditionTrue},
			map[string]string{"MachinesSpecUpToDate": "False Warning RollingUpdateInProgress: why",
				"Ready": "False Warning RollingUpdateInProgress: why"},
		},
		"etcd and a component fail": {
			map[string]metav1.ConditionStatus{"EtcdClusterHealthy": metav1.ConditionFalse, "ControlPlaneComponentsHealthy": metav1.ConditionFalse},
			map[string]string{
				"EtcdClusterHealthy":            "False Error EtcdClusterUnhealthy: why",
				"ControlPlaneComponentsHealthy": "False Error ControlPlaneComponentsUnhealthy: why",
			},
		},
		"nothing is known of etcd": {
			map[string]metav1.ConditionStatus{"EtcdClusterHealthy": metav1.ConditionUnknown},
			map[string]string{"EtcdClusterHealthy": "Unknown Because: why"},
		},
		"no certificates": {
			map[string]metav1.ConditionStatus{"CertificatesAvailable": metav1.ConditionFalse},
			map[string]string{
				"CertificatesAvailable": "False Warning CertificatesGenerationFailed: why", "Ready": "False Warning CertificatesGenerationFailed: why",
			},
		},
		"external etcd": {map[string]metav1.ConditionStatus{"EtcdClusterHealthy": ""}, map[string]string{"EtcdClusterHealthy": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			kcp := &controlplanev1.KubeadmControlPlane{}
			kcp.Status.Replicas, kcp.Status.ReadyReplicas, kcp.Status.UpToDateReplicas = ptr.To(int32(3)), ptr.To(int32(3)), ptr.To(int32(3))
			describeDeprecated(kcp) // what was written before changes
			for _, kind := range []string{
				"Initialized", "CertificatesAvailable", "MachinesReady", "RollingOut", "ScalingUp", "ScalingDown", "ControlPlaneComponentsHealthy",
				"EtcdClusterHealthy",
			} {
				status := metav1.ConditionTrue
				if slices.Contains([]string{"RollingOut", "ScalingUp", "ScalingDown"}, kind) {
					status = metav1.ConditionFalse
				}
				if given, is := test.is[kind]; is {
					status = given
				}
				if status != "" {
					conditions.Set(kcp, metav1.Condition{Type: kind, Status: status, Reason: "Because", Message: "why"})
				}
			}
			describeDeprecated(kcp)
			var want, got []string
			for _, line := range steady {
				kind, is, _ := strings.Cut(line, "=")
				if other, differs := test.want[kind]; differs {
					is = other
				}
				if is != "" {
					want = append(want, kind+"="+is)
				}
			}
			for _, c := range kcp.GetV1Beta1Conditions() {
				text := string(c.Status)
				if c.Severity != "" {
					text += " " + string(c.Severity)
				}
				if c.Reason != "" {
					text += fmt.Sprintf(" %s: %s", c.Reason, c.Message)
				}
				got = append(got, string(c.Type)+"="+text)
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("conditions are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
