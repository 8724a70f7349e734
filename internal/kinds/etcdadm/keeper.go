package etcdadm

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// Keeper returns the EtcdCluster that keeps the etcd of a Cluster; nil if there is none. A Cluster has one etcd: with two, its API servers
// would write to both. Of several the one that was initialized is it, then the oldest, then the first by name. One that is being deleted
// counts until it is gone. All must be of the Cluster's namespace.
func Keeper(all []etcdclusterv1alpha1.EtcdCluster, cluster string) *etcdclusterv1alpha1.EtcdCluster {
	var of []*etcdclusterv1alpha1.EtcdCluster
	for i := range all {
		if ClusterOf(&all[i]) == cluster {
			of = append(of, &all[i])
		}
	}
	if len(of) == 0 {
		return nil
	}
	return slices.MinFunc(of, func(a, b *etcdclusterv1alpha1.EtcdCluster) int {
		switch begun := Initialized(a); {
		case begun != Initialized(b) && begun:
			return -1
		case begun != Initialized(b):
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// ClusterOf returns the name of the Cluster that an EtcdCluster belongs to, by its owner or else its label; empty: none yet.
func ClusterOf(e *etcdclusterv1alpha1.EtcdCluster) string {
	for _, owner := range e.OwnerReferences {
		if group, _, _ := strings.Cut(owner.APIVersion, "/"); owner.Kind == "Cluster" && group == clusterv1.GroupVersion.Group {
			return owner.Name
		}
	}
	return e.Labels[clusterv1.ClusterNameLabel]
}

// Initialized reports whether an EtcdCluster ever had a member, by whatever still says so. The status may be lost in a move or a restore.
func Initialized(e *etcdclusterv1alpha1.EtcdCluster) bool {
	_, noted := e.Annotations[controlplanev1.InitializedAnnotation]
	return noted || ptr.Deref(e.Status.Initialized, false) || len(EndpointsOf(e)) > 0
}

// EndpointsOf returns the URLs that new members join through: those of the members, or else those that control planes use.
func EndpointsOf(e *etcdclusterv1alpha1.EtcdCluster) []string {
	return strings.FieldsFunc(cmp.Or(e.Status.Members, e.Status.Endpoints), func(c rune) bool { return c == ',' || c == ' ' })
}
