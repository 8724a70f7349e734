package provider

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
)

// SetupWithManager adds the controller to the manager. Whatever may end a wait has all configurations that wait be looked at.
func (r *Controller) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	waiting := handler.EnqueueRequestsFromMapFunc(r.waiting)
	err := ctrl.NewControllerManagedBy(mgr).
		For(&bootstrapv1alpha1.EtcdadmConfig{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), mgr.GetLogger(), r.WatchFilter)).
		Watches(&clusterv1.Machine{}, waiting, builder.WithPredicates(ofEtcd)).
		Watches(&etcdclusterv1alpha1.EtcdCluster{}, waiting).
		Watches(&clusterv1.Cluster{}, waiting,
			builder.WithPredicates(predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(mgr.GetScheme(), mgr.GetLogger()))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the controller of EtcdadmConfigs: %w", err)
	}
	return nil
}

// ofEtcd are the Machines that an EtcdCluster owns.
var ofEtcd = predicate.NewPredicateFuncs(func(o client.Object) bool {
	m, ok := o.(*clusterv1.Machine)
	return ok && etcdClusterOf(m) != ""
})

// waiting maps anything to the configurations in its namespace that have no bootstrap data yet, and the Machine of a member to its own,
// whose data may be too much.
func (r *Controller) waiting(ctx context.Context, o client.Object) []ctrl.Request {
	var all bootstrapv1alpha1.EtcdadmConfigList
	if err := r.Client.List(ctx, &all, client.InNamespace(o.GetNamespace())); err != nil {
		return nil
	}
	var requests []ctrl.Request
	m, _ := o.(*clusterv1.Machine)
	for i := range all.Items {
		config := &all.Items[i]
		_, dropped := r.dropped.Load(config.UID)
		ofMember := m != nil && isMember(m) && m.Spec.Bootstrap.ConfigRef.Name == config.Name && !dropped
		if ofMember || !ptr.Deref(config.Status.Initialization.DataSecretCreated, false) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(config)})
		}
	}
	return requests
}
