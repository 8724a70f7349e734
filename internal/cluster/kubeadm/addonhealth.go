package kubeadm

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// AddonState is whether an add-on works, by the status of its DaemonSet or Deployment.
type AddonState string

// The states of an add-on.
const (
	// AddonNotReported is an add-on that is not there, that runs on purpose nowhere, or that the spec leaves to others.
	AddonNotReported AddonState = ""
	// AddonWorks is one that serves.
	AddonWorks AddonState = "Works"
	// AddonFails is one that does not serve, or not on each Node.
	AddonFails AddonState = "Fails"
	// AddonUnknown is one whose controller has not written its status yet.
	AddonUnknown AddonState = "Unknown"
)

// AddonHealth is the state of one add-on. The zero value is one that is not reported.
type AddonHealth struct {
	State AddonState
	// Message has the numbers behind a state that is not AddonWorks. It quotes no text of the managed cluster.
	Message string
}

// unobserved is the health of an object whose controller has not seen its newest generation.
func unobserved(generation, observed int64) AddonHealth {
	return AddonHealth{AddonUnknown, fmt.Sprintf("its controller has not seen generation %d yet, only %d", generation, observed)}
}

// proxyHealth returns the health of kube-proxy. It serves a Node only where it runs, so that it fails where one Node is without it.
func proxyHealth(set *appsv1.DaemonSet) AddonHealth {
	wanted, available := set.Status.DesiredNumberScheduled, set.Status.NumberAvailable
	switch {
	case set.Status.ObservedGeneration < set.Generation:
		return unobserved(set.Generation, set.Status.ObservedGeneration)
	case wanted <= 0:
		return AddonHealth{} // its node selector matches no Node, as others who replace it set it
	case available < wanted:
		return AddonHealth{AddonFails, fmt.Sprintf("available on %d of %d Nodes", max(available, 0), wanted)}
	}
	return AddonHealth{State: AddonWorks}
}

// dnsHealth returns the health of CoreDNS. It serves while its Deployment is available, also with a replica less.
func dnsHealth(d *appsv1.Deployment) AddonHealth {
	wanted, available := ptr.Deref(d.Spec.Replicas, 1), d.Status.AvailableReplicas
	switch {
	case wanted <= 0:
		return AddonHealth{} // somebody has scaled it down to have another DNS server
	case d.Status.ObservedGeneration < d.Generation:
		return unobserved(d.Generation, d.Status.ObservedGeneration)
	case !isAvailable(d):
		return AddonHealth{AddonFails, fmt.Sprintf("%d of %d replicas available", max(available, 0), wanted)}
	}
	return AddonHealth{State: AddonWorks}
}

// isAvailable reports whether a Deployment has as many available replicas as its strategy needs.
func isAvailable(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentAvailable && c.Status == corev1.ConditionTrue
	})
}

// AddonsOfOthers reports whether kubeadm init leaves out kube-proxy and CoreDNS: then others keep what has these names.
func AddonsOfOthers(spec *bootstrapv1.KubeadmConfigSpec) (proxy, dns bool) {
	skips := func(phase string) bool { return slices.Contains(spec.InitConfiguration.SkipPhases, phase) }
	all := skips("addon")
	return all || skips("addon/kube-proxy"), all || skips("addon/coredns")
}
