package observe

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/workload"
)

// Key names the group's object.
func (t *View) Key() client.ObjectKey { return client.ObjectKeyFromObject(t.Object) }

// ClusterKey names the group's Cluster.
func (t *View) ClusterKey() client.ObjectKey { return client.ObjectKeyFromObject(t.Cluster) }

// Title names the object for people.
func (t *View) Title() string { return t.Type.Kind + " " + t.Object.GetName() }

// ControllerRef makes the group the controller of an object.
func (t *View) ControllerRef() metav1.OwnerReference {
	return *metav1.NewControllerRef(t.Object, t.Type.GroupVersionKind)
}

// OwnerRef makes the group an owner of an object whose controller will be the Machine, once that exists.
func (t *View) OwnerRef() metav1.OwnerReference {
	kind := t.Type
	return metav1.OwnerReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: t.Object.GetName(), UID: t.Object.GetUID()}
}

// Other returns the cluster's control plane machine of that name that is not the group's; nil if there is none.
func (t *View) Other(name string) *clusterv1.Machine {
	for _, m := range t.Others {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// Dial returns the way to the group's etcd.
func (t *Observer) Dial() Dial {
	if t.Nodeless {
		return dialDirectly
	}
	key := t.ClusterKey()
	return func(node, ip string) etcd.Target {
		return etcd.Target{Name: node, Alias: workload.EtcdPod(node), Dial: t.Workload.Dial(key, node, ip, etcdPort)}
	}
}
