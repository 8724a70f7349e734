// Package hints gives upstream's controllers events that they do not watch for. It knows for which objects they wait, and which kinds say
// that the wait is over; it does not know what any controller does then.
package hints

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// hinted gives upstream's controllers events that they do not watch for. Where an object refers to one that the cache
// does not show yet, they look again after 30 s, and a MachineSet that waits for its control plane after 15 s. The
// source of connection events is the one thing that each of them takes from outside, so the events travel with it.
type hinted struct {
	clustercache.ClusterCache
	sources map[string][]source.Source
}

// Add adds the events to the sources that the controllers ask the connections for.
func Add(c clustercache.ClusterCache, from cache.Cache, reader client.Reader) clustercache.ClusterCache {
	h := hints{reader: reader}
	onCreate := predicate.Funcs{
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	kind := func(obj client.Object, to handler.MapFunc, when predicate.Predicate) source.Source {
		return source.Kind(from, obj, handler.EnqueueRequestsFromMapFunc(to), when)
	}
	return &hinted{ClusterCache: c, sources: map[string][]source.Source{
		"cluster": {
			kind(untyped(infrav1.GroupVersion, "LocalCluster"), h.toCluster, onCreate),
			kind(untyped(controlplanev1.GroupVersion, "KubeadmControlPlane"), h.toCluster, onCreate),
			kind(untyped(controlplanev1alpha1.GroupVersion, "ControlPlane"), h.toCluster, onCreate),
		},
		"machine": {
			kind(untyped(infrav1.GroupVersion, "LocalMachine"), h.toMachine, onCreate),
			kind(untyped(bootstrapv1.GroupVersion, "KubeadmConfig"), h.toMachine, onCreate),
			kind(untyped(bootstrapv1alpha1.GroupVersion, "EtcdadmConfig"), h.toMachine, onCreate),
		},
		"machineset": {
			kind(untyped(controlplanev1.GroupVersion, "KubeadmControlPlane"), h.toMachineSets, predicate.Funcs{UpdateFunc: versionMoved}),
			kind(untyped(controlplanev1alpha1.GroupVersion, "ControlPlane"), h.toMachineSets, predicate.Funcs{UpdateFunc: versionMoved}),
		},
	}}
}

// untyped is the form in which upstream's controllers read objects that others own. Watching the same form, a hint never
// comes before the object can be read.
func untyped(gv schema.GroupVersion, kind string) client.Object {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gv.WithKind(kind))
	return u
}

// GetClusterSource returns the source of connection events of one controller, and its hints with it.
func (h *hinted) GetClusterSource(
	controllerName string, mapFunc func(context.Context, client.Object) []reconcile.Request, opts ...clustercache.GetClusterSourceOption,
) source.Source {
	all := append([]source.Source{h.ClusterCache.GetClusterSource(controllerName, mapFunc, opts...)}, h.sources[controllerName]...)
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		for _, s := range all {
			if err := s.Start(ctx, queue); err != nil {
				return err
			}
		}
		return nil
	})
}

// hints maps objects to those that wait for them.
type hints struct {
	reader client.Reader
}

// toCluster finds the clusters that refer to an infrastructure or control plane.
func (h hints) toCluster(ctx context.Context, obj client.Object) []reconcile.Request {
	var clusters clusterv1.ClusterList
	if err := h.reader.List(ctx, &clusters, client.InNamespace(obj.GetNamespace())); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range clusters.Items {
		c := &clusters.Items[i]
		if refersTo(c.Spec.InfrastructureRef, obj) || refersTo(c.Spec.ControlPlaneRef, obj) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(c)})
		}
	}
	return out
}

// toMachine finds the machines that refer to an infrastructure machine or bootstrap config.
func (h hints) toMachine(ctx context.Context, obj client.Object) []reconcile.Request {
	var machines clusterv1.MachineList
	if err := h.reader.List(ctx, &machines, client.InNamespace(obj.GetNamespace())); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range machines.Items {
		m := &machines.Items[i]
		if refersTo(m.Spec.InfrastructureRef, obj) || refersTo(m.Spec.Bootstrap.ConfigRef, obj) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(m)})
		}
	}
	return out
}

// toMachineSets finds the MachineSets of a control plane's cluster.
func (h hints) toMachineSets(ctx context.Context, obj client.Object) []reconcile.Request {
	var machineSets clusterv1.MachineSetList
	if err := h.reader.List(ctx, &machineSets, client.InNamespace(obj.GetNamespace()),
		client.MatchingLabels{clusterv1.ClusterNameLabel: obj.GetLabels()[clusterv1.ClusterNameLabel]}); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range machineSets.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&machineSets.Items[i])})
	}
	return out
}

func refersTo(ref clusterv1.ContractVersionedObjectReference, obj client.Object) bool {
	gvk := obj.GetObjectKind().GroupVersionKind()
	return ref.Name == obj.GetName() && ref.Kind == gvk.Kind && ref.APIGroup == gvk.Group
}

// versionMoved: what upstream's preflight checks look at, the wanted or the reported version, is another one now.
func versionMoved(e event.UpdateEvent) bool {
	before, wasUntyped := e.ObjectOld.(*unstructured.Unstructured)
	after, isUntyped := e.ObjectNew.(*unstructured.Unstructured)
	if !wasUntyped || !isUntyped {
		return false
	}
	for _, field := range []string{"spec", "status"} {
		was, _, _ := unstructured.NestedString(before.Object, field, "version")
		is, _, _ := unstructured.NestedString(after.Object, field, "version")
		if was != is {
			return true
		}
	}
	return false
}
