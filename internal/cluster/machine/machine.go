// Package machine knows the contract of Cluster API's Machines as far as a control
// plane needs it: labels, hooks, addresses, what a failed bootstrap looks like, and which static
// pods a machine should run. It only reads objects that it is given, and does not know
// what should be done with a machine.
package machine

import (
	"cmp"
	"strings"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// Hook is the annotation that keeps a Machine until its member has left etcd. It is upstream's, so
// that machines can be handed over to upstream's controller and back while they are deleted.
const Hook = controlplanev1.PreTerminateHookCleanupAnnotation

// HasHook reports whether our hook is on the Machine.
func HasHook(m *clusterv1.Machine) bool {
	_, on := m.Annotations[Hook]
	return on
}

// HookDue reports whether all other work of the Machine's deletion is done, and it waits for our hook
// alone. Ours is the last: the others' work may need a kubelet, which needs the
// machine's API server, which needs its etcd.
func HookDue(m *clusterv1.Machine) bool {
	if m.DeletionTimestamp.IsZero() || !HasHook(m) {
		return false
	}
	for name := range m.Annotations {
		if name != Hook && strings.HasPrefix(name, clusterv1.PreTerminateDeleteHookAnnotationPrefix) {
			return false
		}
	}
	return conditions.IsTrue(m, clusterv1.MachineDeletingCondition) &&
		conditions.GetReason(m, clusterv1.MachineDeletingCondition) == clusterv1.MachineDeletingWaitingForPreTerminateHookReason
}

// Labels select the control plane machines of a cluster.
func Labels(cluster string) client.MatchingLabels {
	return client.MatchingLabels{clusterv1.ClusterNameLabel: cluster, clusterv1.MachineControlPlaneLabel: ""}
}

// IsControlPlane reports whether the Machine belongs to a control plane.
func IsControlPlane(m *clusterv1.Machine) bool {
	_, labelled := m.Labels[clusterv1.MachineControlPlaneLabel]
	return labelled
}

// EtcdCluster is the name of the etcd cluster that the Machine is a member of; empty: it is of none.
func EtcdCluster(m *clusterv1.Machine) string { return m.Labels[etcdclusterv1alpha1.MachineLabel] }

// IsEtcd reports whether the Machine is a member of an etcd cluster on machines of its own.
func IsEtcd(m *clusterv1.Machine) bool {
	_, labelled := m.Labels[etcdclusterv1alpha1.MachineLabel]
	return labelled
}

// NodeName is the name of the Machine's Node; empty until it is known.
func NodeName(m *clusterv1.Machine) string { return m.Status.NodeRef.Name }

// InternalIP is the first internal address that the infrastructure gave the Machine; empty until it is known.
func InternalIP(m *clusterv1.Machine) string {
	for _, a := range m.Status.Addresses {
		if a.Type == clusterv1.MachineInternalIP {
			return a.Address
		}
	}
	return ""
}

// Compare orders Machines: the oldest first, then by name.
func Compare(a, b *clusterv1.Machine) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
