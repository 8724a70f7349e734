package admission

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	"github.com/quorate/quorate/internal/cluster/kubeadm"
)

// checkAdvertised returns an error if all machines that join a control plane with stacked etcd would advertise one address. stacked is
// whether etcd runs on the machines.
func checkAdvertised(spec *bootstrapv1.KubeadmConfigSpec, stacked bool, at *field.Path) field.ErrorList {
	refused := kubeadm.SharedAddress(spec)
	if !stacked || refused == "" {
		return nil
	}
	first, rest, _ := strings.Cut(kubeadm.JoinAddressField, ".")
	return field.ErrorList{field.Invalid(at.Child(first, strings.Split(rest, ".")...), kubeadm.JoinAddress(spec), refused)}
}
