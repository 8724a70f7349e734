package inplace

import "strings"

// changeable are the fields of a KubeadmConfig, from its clusterConfiguration on, that an upgrade in place brings to the node, with the reason. A field
// stands for all below it. All others are used once, when a machine is made: another machine has to be made for them.
var changeable = map[string]string{
	"imageRepository":                           "kubeadm renders the static pods with it",
	"apiServer.extraArgs":                       "kubeadm renders the API server's static pod with them",
	"controllerManager.extraArgs":               "kubeadm renders the controller manager's static pod with them",
	"scheduler.extraArgs":                       "kubeadm renders the scheduler's static pod with them",
	"etcd.local.extraArgs":                      "kubeadm renders etcd's static pod with them",
	"etcd.local.imageRepository":                "kubeadm renders etcd's static pod with it",
	"etcd.local.imageTag":                       "kubeadm renders etcd's static pod with it",
	"dns":                                       "CoreDNS is updated in the running cluster",
	"featureGates.ControlPlaneKubeletLocalMode": "control planes set it by themselves, up to the last version of kubeadm that knows it",
}

// unheeded are the fields of a Machine's spec that make no difference: identity, what a provider fills in, and what Cluster API writes while the
// machine lives.
var unheeded = []string{"clusterName", "bootstrap", "infrastructureRef", "providerID", "minReadySeconds", "readinessGates", "deletion", "taints"}

// clusterConfiguration is where the fields of changeable are in a KubeadmConfig's spec.
const clusterConfiguration = "spec.clusterConfiguration."

// canChange reports whether a field of a KubeadmConfig is changed in place.
func canChange(field string) bool {
	name, inside := strings.CutPrefix(field, clusterConfiguration)
	for inside && name != "" {
		if _, ok := changeable[name]; ok {
			return true
		}
		at := strings.LastIndex(name, ".")
		name = name[:max(at, 0)]
	}
	return false
}

// never is for objects of which nothing is changed in place.
func never(string) bool { return false }
