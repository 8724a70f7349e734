package kubeadm

import (
	"net/netip"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// JoinAddressField is where a configuration has the address that each machine that joins advertises.
const JoinAddressField = "joinConfiguration.controlPlane.localAPIEndpoint.advertiseAddress"

// JoinAddress returns the address that each machine that joins advertises; empty: its own.
func JoinAddress(config *bootstrapv1.KubeadmConfigSpec) string {
	if config.JoinConfiguration.ControlPlane == nil {
		return ""
	}
	return config.JoinConfiguration.ControlPlane.LocalAPIEndpoint.AdvertiseAddress
}

// SharedAddress returns why machines with stacked etcd cannot join with their JoinAddress; empty: they can. kubeadm makes the peer URL of a
// machine's etcd member of it, and etcd takes no two members with one peer URL. An address of zeros, and a variable of the machine's own,
// are not the same on all machines.
func SharedAddress(config *bootstrapv1.KubeadmConfigSpec) string {
	address, err := netip.ParseAddr(JoinAddress(config))
	if err != nil || address.IsUnspecified() {
		return ""
	}
	return "every machine that joins would advertise this address, and stacked etcd takes no two members with the same one: " +
		"leave it out for the address of each machine's default route, or set a variable of the machine, such as {{ ds.meta_data.local_ipv4 }}"
}
