package admission

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
)

// mostMembers is the largest number of members that etcd's own documentation advises.
const mostMembers = 7

// checkReplicas says why a number of machines is refused, in the words of the schema; nil: it is accepted. A number that
// was stored before there was this check stays editable: it may remain, and a large one may become smaller.
func checkReplicas(before, after *controlplanev1.KubeadmControlPlane) *field.Error {
	if keepsReplicas(before, after) {
		return nil
	}
	n, stored := ptr.Deref(after.Spec.Replicas, 1), int32(0)
	if before != nil {
		stored = ptr.Deref(before.Spec.Replicas, 0)
	}
	why := stackedRefusal(n, stored)
	if hasExternalEtcd(after) {
		why = externalRefusal(n)
	}
	if why == "" {
		return nil
	}
	return field.Invalid(field.NewPath("spec", "replicas"), n, fmt.Sprintf("replicas is %d: %s", n, why))
}

// externalRefusal says why n machines are refused with external etcd; empty: they are accepted.
func externalRefusal(n int32) string {
	if n < 1 {
		return "at least one machine is needed; any number from 1 is accepted with external etcd"
	}
	return ""
}

// stackedRefusal says why n machines are refused with stacked etcd, where stored are wanted so far; empty: they are accepted.
func stackedRefusal(n, stored int32) string {
	switch {
	case n < 1:
		return "at least one machine is needed; 1, 3, 5 or 7 are accepted with stacked etcd"
	case n%2 == 0:
		return "a control plane with stacked etcd needs an odd number of machines (1, 3, 5 or 7), an even one only adds a machine that can fail"
	case n > mostMembers && n > stored:
		return "stacked etcd is supported with 1, 3, 5 or 7 members, more only slow it down"
	}
	return ""
}

// keepsReplicas reports whether an update leaves the number of machines as it is stored.
func keepsReplicas(before, after *controlplanev1.KubeadmControlPlane) bool {
	return before != nil && ptr.Equal(before.Spec.Replicas, after.Spec.Replicas)
}

// acceptable returns a number of machines that upstream's checks accept in place of one that they do not.
func acceptable(n *int32, external bool) *int32 {
	switch {
	case n == nil || *n < 1:
		return ptr.To[int32](3)
	case *n%2 == 0 && !external:
		return ptr.To(*n - 1) // not more: two are too few for a rollout without a surplus machine
	}
	return n
}

func hasExternalEtcd(kcp *controlplanev1.KubeadmControlPlane) bool {
	return kcp.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.IsDefined() || kcp.Spec.ManagedExternalEtcdRef.IsDefined()
}
