package machine

import bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

// apiServerPort is kubeadm's default.
const apiServerPort = 6443

// APIServerPort is the port at which the machine's own API server serves, by the configuration
// that the machine was made from; nil: kubeadm's default.
func APIServerPort(config *bootstrapv1.KubeadmConfig) int {
	if config == nil {
		return apiServerPort
	}
	if port := config.Spec.InitConfiguration.LocalAPIEndpoint.BindPort; port != 0 {
		return int(port)
	}
	if join := config.Spec.JoinConfiguration.ControlPlane; join != nil && join.LocalAPIEndpoint.BindPort != 0 {
		return int(join.LocalAPIEndpoint.BindPort)
	}
	return apiServerPort
}
