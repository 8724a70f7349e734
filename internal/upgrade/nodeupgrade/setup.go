package nodeupgrade

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
)

// SetupWithManager adds the controller to the manager. What a wait is for beside a person's word is looked at again by itself.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	if c.Recorder == nil {
		c.Recorder = mgr.GetEventRecorder("quorate")
	}
	err := ctrl.NewControllerManagedBy(mgr).
		For(&upgradev1.NodeUpgrade{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), mgr.GetLogger(), c.WatchFilter)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), mgr.GetLogger()))).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting up the controller of NodeUpgrades: %w", err)
	}
	return nil
}

// ofCluster maps a Cluster to its NodeUpgrades.
func (c *Controller) ofCluster(ctx context.Context, o client.Object) []ctrl.Request {
	var all upgradev1.NodeUpgradeList
	if err := c.Client.List(ctx, &all, client.InNamespace(o.GetNamespace()),
		client.MatchingLabels{clusterv1.ClusterNameLabel: o.GetName()}); err != nil {
		return nil // those that wait look again by themselves
	}
	var requests []ctrl.Request
	for i := range all.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
	}
	return requests
}
