package inplace

import (
	"strings"

	"github.com/quorate/quorate/internal/core/drift"
)

// ignoredFields are the fields of a Machine's spec that make no difference: identity, what a provider fills in, and what Cluster API writes
// while the machine lives.
var ignoredFields = []string{"clusterName", "bootstrap", "infrastructureRef", "providerID", "minReadySeconds", "readinessGates", "deletion",
	"taints"}

// localMode is a feature gate of kubeadm that control planes set by themselves, up to the last version of kubeadm that knows it. An upgrade
// in place leaves it out where the new kubeadm does not know it.
const localMode = "spec.clusterConfiguration.featureGates.ControlPlaneKubeletLocalMode"

// joinTimeouts are how long kubeadm waits while a machine joins: one that has joined is the same with others. Cluster API compares them
// with those of kubeadm init on the machine that was initialised, which are often different.
const joinTimeouts = "spec.joinConfiguration.timeouts"

// canChange reports whether a field of a KubeadmConfig's spec is changed in place: what a KubeadmControlPlane of Quorate's changes so, and
// what means nothing to a machine that has joined.
func canChange(field string) bool {
	rest, ok := strings.CutPrefix(field, "spec.")
	return ok && (field == localMode || field == joinTimeouts || strings.HasPrefix(field, joinTimeouts+".") ||
		drift.Updatable("spec.kubeadmConfigSpec."+rest))
}

// never is for objects of which nothing is changed in place.
func never(string) bool { return false }
