package stacked

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/machine"
)

// SetupWithManager registers the controller: turns are brought about by changes
// of control planes, of their Machines, of what they need from their Cluster, of
// machines that may be adopted, of the last worker's end, and of Nodes and static pods in the managed clusters.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	if r.Client == nil || r.APIReader == nil || r.Workload == nil {
		return errors.New("setting up the controller of KubeadmControlPlanes: Client, APIReader and Workload are needed")
	}
	if r.Recorder == nil {
		r.Recorder = mgr.GetEventRecorder("quorate")
	}
	if r.Quorums == nil {
		r.Quorums = &quorums{secrets: r.APIReader}
	}
	if r.Kubeadm == nil {
		r.Kubeadm = kubeadm{secrets: r.APIReader, workload: r.Workload}
	}
	r.wakes = make(chan event.GenericEvent)
	if err := group.RegisterMetrics(runtimemetrics.Registry); err != nil {
		return err
	}
	r.handshakes.SetLimit(expiriesAtOnce)
	log := ctrl.LoggerFrom(ctx).WithValues("controller", "kubeadmcontrolplane")
	err := ctrl.NewControllerManagedBy(mgr).
		Named("kubeadmcontrolplane").
		For(&controlplanev1.KubeadmControlPlane{}).
		Owns(&clusterv1.Machine{}).
		Owns(&clusterv1.MachineHealthCheck{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.ofWorker), builder.WithPredicates(ends())).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.ofStranger)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster), builder.WithPredicates(clusterChanges())).
		WatchesRawSource(source.Channel(r.Workload.Events(), handler.EnqueueRequestsFromMapFunc(r.ofView))).
		WatchesRawSource(source.Channel(r.wakes, &handler.EnqueueRequestForObject{})).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilter)).
		WithOptions(options).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the controller of KubeadmControlPlanes: %w", err)
	}
	return nil
}

// ofCluster returns the control plane that a Cluster refers to.
func ofCluster(_ context.Context, o client.Object) []ctrl.Request {
	cluster, ok := o.(*clusterv1.Cluster)
	ref := clusterv1.ContractVersionedObjectReference{}
	if ok {
		ref = cluster.Spec.ControlPlaneRef
	}
	if ref.Kind != kind || ref.APIGroup != controlplanev1.GroupVersion.Group {
		return nil
	}
	return []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: ref.Name}}}
}

// ofView returns the control plane of the Cluster whose view has changed. The
// event carries only the Cluster's name.
func (r *Reconciler) ofView(ctx context.Context, o client.Object) []ctrl.Request {
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(o), cluster); err != nil {
		return nil // the next look at rest comes anyway
	}
	return ofCluster(ctx, cluster)
}

// ofWorker returns the control plane that waits for a worker's end.
func (r *Reconciler) ofWorker(ctx context.Context, o client.Object) []ctrl.Request {
	m, ok := o.(*clusterv1.Machine)
	if !ok || machine.IsControlPlane(m) {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.ClusterName}, cluster); err != nil {
		return nil // the next look at rest comes anyway
	}
	return ofCluster(ctx, cluster)
}

// ofStranger returns the control plane of the cluster whose control plane machine is
// controlled by nobody, or by something else.
func (r *Reconciler) ofStranger(ctx context.Context, o client.Object) []ctrl.Request {
	m, ok := o.(*clusterv1.Machine)
	if owner := metav1.GetControllerOf(o); !ok || !machine.IsControlPlane(m) || owner != nil && owner.Kind == kind {
		return nil
	}
	cluster := &clusterv1.Cluster{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Labels[clusterv1.ClusterNameLabel]}, cluster); err != nil {
		return nil // the next look at rest comes anyway
	}
	return ofCluster(ctx, cluster)
}

// ends passes only the end of an object.
func ends() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
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
