package provider

import (
	"cmp"
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
)

// forgetLimit is how long a cluster may take to forget a machine that is gone. Whatever is left then is removed by Cluster API (the
// Node) and by the cluster's own garbage collector (its pods).
const forgetLimit = 5 * time.Second

// forget takes the Node of a machine that is gone, and its pods, from the cluster, as a cloud's controller does with instances that
// are no more. Without it the pods stay for a minute. The cluster's garbage collector waits 40 s in case the Node comes back, and
// looks every 20 s, while their kubelet, which alone could confirm their end, is gone. What cannot be done holds up nothing.
func (r *machineReconciler) forget(ctx context.Context, lm *infrav1.LocalMachine, of owner) {
	if r.workload == nil || of.cluster == nil || of.machine == nil || isEtcd(of.machine) || !of.cluster.DeletionTimestamp.IsZero() {
		return
	}
	name := cmp.Or(of.machine.Status.NodeRef.Name, lm.Name)
	ctx, cancel := context.WithTimeout(ctx, forgetLimit)
	defer cancel()
	c, err := r.workload(ctx, client.ObjectKeyFromObject(of.cluster))
	if err == nil {
		err = forgetNode(ctx, c, name, providerID(lm.Name))
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Info("the cluster has not forgotten a machine that is gone; it will by itself", "node", name, "why", err.Error())
	}
}

// forgetNode removes a Node, if it is of the machine that is gone, and then the pods on it: in this order, or others would be made there.
func forgetNode(ctx context.Context, c client.Client, name, provider string) error {
	node := &corev1.Node{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return fmt.Errorf("reading Node %s: %w", name, err)
	case node.Spec.ProviderID != provider:
		return nil // it is another machine's
	default:
		if err := c.Delete(ctx, node, client.Preconditions{UID: ptr.To(node.UID)}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Node %s: %w", name, err)
		}
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
		return fmt.Errorf("listing the pods of Node %s: %w", name, err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if err := c.Delete(ctx, p, client.GracePeriodSeconds(0), client.Preconditions{UID: ptr.To(p.UID)}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting pod %s of Node %s: %w", client.ObjectKeyFromObject(p), name, err)
		}
	}
	return nil
}
