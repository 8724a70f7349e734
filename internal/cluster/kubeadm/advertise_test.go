package kubeadm

import (
	"testing"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// TestSharedAddress: only an address that is the same on all machines is one that they share.
func TestSharedAddress(t *testing.T) {
	t.Parallel()
	if got := SharedAddress(&bootstrapv1.KubeadmConfigSpec{}); got != "" {
		t.Errorf("without a configuration of joins: %s", got)
	}
	for address, shared := range map[string]bool{
		"10.0.0.5": true, "2001:db8::5": true, "127.0.0.1": true,
		"": false, "0.0.0.0": false, "::": false, "{{ ds.meta_data.local_ipv4 }}": false,
	} {
		config := &bootstrapv1.KubeadmConfigSpec{}
		config.JoinConfiguration.ControlPlane = &bootstrapv1.JoinControlPlane{}
		config.JoinConfiguration.ControlPlane.LocalAPIEndpoint.AdvertiseAddress = address
		if got := SharedAddress(config); (got != "") != shared || JoinAddress(config) != address {
			t.Errorf("%s: %s", JoinAddress(config), got)
		}
	}
}
