package admission

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation/field"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
)

// joinAddress is the address that each machine that joins advertises; empty: its own.
func joinAddress(spec *bootstrapv1.KubeadmConfigSpec) string {
	if spec.JoinConfiguration.ControlPlane == nil {
		return ""
	}
	return spec.JoinConfiguration.ControlPlane.LocalAPIEndpoint.AdvertiseAddress
}

// checkAdvertised returns an error if all machines that join a control plane with stacked etcd would advertise one address. kubeadm
// makes the peer URL of a machine's etcd member of it, and etcd takes no two members with one peer URL. An address of zeros, and a
// variable of the machine's own, are not the same on all machines. stacked is whether etcd runs on the machines.
func checkAdvertised(spec *bootstrapv1.KubeadmConfigSpec, stacked bool, at *field.Path) field.ErrorList {
	address, err := netip.ParseAddr(joinAddress(spec))
	if !stacked || err != nil || address.IsUnspecified() {
		return nil
	}
	at = at.Child("joinConfiguration", "controlPlane", "localAPIEndpoint", "advertiseAddress")
	return field.ErrorList{field.Invalid(at, joinAddress(spec),
		"every machine that joins would advertise this address, and stacked etcd takes no two members with the same one: "+
			"leave it out for the address of each machine's default route, or set a variable of the machine, such as {{ ds.meta_data.local_ipv4 }}")}
}
