package machine

import (
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

func TestAPIServerPort(t *testing.T) {
	init, join, joinsAsWorker := &bootstrapv1.KubeadmConfig{}, &bootstrapv1.KubeadmConfig{}, &bootstrapv1.KubeadmConfig{}
	init.Spec.InitConfiguration.LocalAPIEndpoint.BindPort = 8443
	join.Spec.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
	join.Spec.JoinConfiguration.ControlPlane.LocalAPIEndpoint.BindPort = 9443
	for name, test := range map[string]struct {
		config *bootstrapv1.KubeadmConfig
		want   int
	}{"not known": {nil, 6443}, "initialises": {init, 8443}, "joins": {join, 9443}, "says nothing": {joinsAsWorker, 6443}} {
		if got := APIServerPort(test.config); got != test.want {
			t.Errorf("%s: port %d, want %d", name, got, test.want)
		}
	}
}
