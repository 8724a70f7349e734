package group

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ofUpgrade returns the group of the cluster in which a node is upgraded in place.
func (c *Controller) ofUpgrade(ctx context.Context, o client.Object) []ctrl.Request {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: o.GetNamespace(), Name: o.GetLabels()[clusterv1.ClusterNameLabel]}}
	if c.Kind.Type().Standalone {
		return nil
	}
	return c.ofView(ctx, cluster)
}
