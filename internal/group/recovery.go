package group

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/group/observe"
)

// ofRecovery returns the group of the Cluster that an EtcdRecovery names.
func (c *Controller) ofRecovery(ctx context.Context, o client.Object) []ctrl.Request {
	r, is := o.(*observe.EtcdRecovery)
	if !is || !c.Kind.Type().Seeds {
		return nil
	}
	return c.ofView(ctx, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Spec.ClusterName}})
}
