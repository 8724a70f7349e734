package group

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	runtimemetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/group/inplace"
	"github.com/quorate/quorate/internal/group/observe"
)

// SetupWithManager registers the controller. These changes bring about turns:
// of the groups, of their Machines, of their Cluster, of machines that may be
// adopted, and of the objects that turns read. So do the last worker's end, and Nodes and static pods in the managed clusters.
func (c *Controller) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	kind := c.Kind.Type()
	if c.Client == nil || c.APIReader == nil || c.Workload == nil {
		return fmt.Errorf("setting up the controller of %s: Client, APIReader and Workload are needed", kind.Kind)
	}
	if c.Recorder == nil {
		c.Recorder = mgr.GetEventRecorder("quorate")
	}
	if c.Quorums == nil {
		c.Quorums = observe.NewQuorums(c.APIReader, kind.Authority)
	}
	if c.EtcdEndpoints == nil {
		c.EtcdEndpoints = observe.NewEtcdEndpoints(c.APIReader)
	}
	c.Wakes, c.RetellAfter = make(chan event.GenericEvent), RetellTime
	if err := RegisterMetrics(runtimemetrics.Registry); err != nil {
		return err
	}
	name := strings.ToLower(kind.Kind)
	log := ctrl.LoggerFrom(ctx).WithValues("controller", name)
	set, err := ctrl.NewControllerManagedBy(mgr).
		Named(name).
		For(c.Kind.New()).
		Owns(&clusterv1.Machine{}, builder.WithPredicates(machineChanges(kind.Kind))).
		Owns(&clusterv1.MachineHealthCheck{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(c.ofWorker), builder.WithPredicates(ends())).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(c.ofUncontrolled), builder.WithPredicates(ownerChanges())).
		Watches(&inplace.NodeUpgrade{}, handler.EnqueueRequestsFromMapFunc(c.ofUpgrade)).
		Watches(&observe.EtcdRecovery{}, handler.EnqueueRequestsFromMapFunc(c.ofRecovery)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster), builder.WithPredicates(clusterChanges())).
		WatchesRawSource(source.Channel(c.Workload.Events(), handler.EnqueueRequestsFromMapFunc(c.ofView))).
		WatchesRawSource(source.Channel(c.Wakes, &handler.EnqueueRequestForObject{})).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, c.WatchFilter)).
		WithOptions(options).
		Build(c)
	if err != nil {
		return fmt.Errorf("setting up the controller of %s: %w", kind.Kind, err)
	}
	c.watched.Start(mgr.GetScheme(), func(of client.Object) error {
		return set.Watch(source.Kind(mgr.GetCache(), of, handler.EnqueueRequestsFromMapFunc(c.watched.Requests), c.watched.Changes()))
	})
	return nil
}

// ofCluster returns the group that a Cluster refers to, or, where it refers to none of the kind, those that say they are its own.
func (c *Controller) ofCluster(ctx context.Context, o client.Object) []ctrl.Request {
	if c.Kind.Type().Standalone {
		return c.labelled(ctx, o)
	}
	cluster, ok := o.(*clusterv1.Cluster)
	ref := clusterv1.ContractVersionedObjectReference{}
	if ok {
		ref = cluster.Spec.ControlPlaneRef
	}
	if kind := c.Kind.Type(); ref.Kind != kind.Kind || ref.APIGroup != kind.Group {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}}}
}

// labelled returns the groups whose label names a Cluster.
func (c *Controller) labelled(ctx context.Context, cluster client.Object) []ctrl.Request {
	kind := c.Kind.Type().GroupVersionKind
	made, err := c.Client.Scheme().New(kind.GroupVersion().WithKind(kind.Kind + "List"))
	list, is := made.(client.ObjectList)
	if err != nil || !is {
		return nil
	}
	if err := c.Client.List(ctx, list, client.InNamespace(cluster.GetNamespace()),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()}); err != nil {
		return nil // the next look at rest comes anyway
	}
	var requests []ctrl.Request
	_ = meta.EachListItem(list, func(o runtime.Object) error {
		if object, is := o.(client.Object); is {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(object)})
		}
		return nil
	})
	return requests
}

// ofView returns the group of the Cluster whose view has changed. The
// event carries only the Cluster's name.
func (c *Controller) ofView(ctx context.Context, o client.Object) []ctrl.Request {
	cluster := &clusterv1.Cluster{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(o), cluster); err != nil {
		return nil // the next look at rest comes anyway
	}
	return c.ofCluster(ctx, cluster)
}

// ofWorker returns the group that waits for a worker's end.
func (c *Controller) ofWorker(ctx context.Context, o client.Object) []ctrl.Request {
	m, ok := o.(*clusterv1.Machine)
	if !ok || machine.IsControlPlane(m) && !c.Kind.Type().Standalone {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}, cluster); err != nil {
		return nil // the next look at rest comes anyway
	}
	return c.ofCluster(ctx, cluster)
}

// ofUncontrolled returns the group of the cluster whose control plane machine
// has no controller, or another one.
func (c *Controller) ofUncontrolled(ctx context.Context, o client.Object) []ctrl.Request {
	m, ok := o.(*clusterv1.Machine)
	if owner := metav1.GetControllerOf(o); !ok || !machine.IsControlPlane(m) && !machine.IsEtcd(m) || owner != nil &&
		owner.Kind == c.Kind.Type().Kind {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}, cluster); err != nil {
		return nil // the next look at rest comes anyway
	}
	return c.ofCluster(ctx, cluster)
}

// ends passes only the end of an object.
func ends() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// machineChanges passes changes of a Machine of groups of a kind that a decision or what is told may depend on. Cluster API writes a
// Machine's status some twenty times while it comes up.
func machineChanges(kind string) predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			if !controlledBy(e.ObjectOld, kind) && !controlledBy(e.ObjectNew, kind) {
				return false
			}
			before, ok1 := e.ObjectOld.(*clusterv1.Machine)
			after, ok2 := e.ObjectNew.(*clusterv1.Machine)
			return !ok1 || !ok2 || !equality.Semantic.DeepEqual(readOf(before), readOf(after))
		},
	}
}

// controlledBy reports whether an object of a kind controls another.
func controlledBy(o client.Object, kind string) bool {
	owner := metav1.GetControllerOfNoCopy(o)
	return owner != nil && owner.Kind == kind
}

// readOf is a Machine without what nothing is read from: what only says that it was written, and what Nodes themselves tell sooner.
func readOf(m *clusterv1.Machine) *clusterv1.Machine {
	read := *m // what is changed below is no deeper
	read.ResourceVersion, read.Generation, read.ManagedFields = "", 0, nil
	status := &read.Status
	status.Phase, status.ObservedGeneration, status.LastUpdated = "", 0, metav1.Time{}
	if old := status.Deprecated; old != nil && old.V1Beta1 != nil && (old.V1Beta1.FailureReason != nil || old.V1Beta1.FailureMessage != nil) {
		status.Deprecated = &clusterv1.MachineDeprecatedStatus{V1Beta1: &clusterv1.MachineV1Beta1DeprecatedStatus{
			FailureReason: old.V1Beta1.FailureReason, FailureMessage: old.V1Beta1.FailureMessage,
		}}
	} else {
		status.Deprecated = nil
	}
	status.Conditions = nil
	for _, c := range m.Status.Conditions {
		if !machine.Unread(c.Type) {
			c.ObservedGeneration = 0
			status.Conditions = append(status.Conditions, c)
		}
	}
	return &read
}

// ownerChanges passes a Machine's beginning and end, and changes of whose it is; all changes of one that has no controller, and may be
// adopted.
func ownerChanges() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld, e.ObjectNew
			return metav1.GetControllerOfNoCopy(after) == nil ||
				!slices.EqualFunc(before.GetOwnerReferences(), after.GetOwnerReferences(), observe.SameOwner) ||
				!maps.Equal(before.GetLabels(), after.GetLabels()) ||
				!before.GetDeletionTimestamp().Equal(after.GetDeletionTimestamp())
		},
	}
}

// clusterChanges passes changes of a Cluster that a decision may depend on.
func clusterChanges() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok1 := e.ObjectOld.(*clusterv1.Cluster)
			after, ok2 := e.ObjectNew.(*clusterv1.Cluster)
			return !ok1 || !ok2 || clusterDiffers(before, after)
		},
	}
}

// clusterDiffers reports whether two versions of a Cluster differ in what is read from it.
func clusterDiffers(before, after *clusterv1.Cluster) bool {
	return !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
		!equality.Semantic.DeepEqual(before.Status.Initialization, after.Status.Initialization) ||
		!equality.Semantic.DeepEqual(before.Status.FailureDomains, after.Status.FailureDomains) ||
		!equality.Semantic.DeepEqual(before.DeletionTimestamp, after.DeletionTimestamp)
}
