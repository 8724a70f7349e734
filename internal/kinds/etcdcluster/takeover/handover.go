package takeover

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/api/etcdcluster/v1beta1"
	"github.com/quorate/quorate/internal/cluster/certs"
)

// handOverMachines lets go of the Machines of the other controller. The EtcdCluster adopts them when it finds all of them without a
// controller, and begins nothing before.
func (c *Controller) handOverMachines(ctx context.Context, e *v1beta1.EtcdadmCluster, cluster *clusterv1.Cluster) error {
	var all clusterv1.MachineList
	labels := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name, v1alpha1.MachineLabel: e.Name}
	if err := c.Client.List(ctx, &all, client.InNamespace(e.Namespace), labels); err != nil {
		return fmt.Errorf("listing the Machines of EtcdadmCluster %s: %w", e.Name, err)
	}
	var failed []error
	for i := range all.Items {
		m := &all.Items[i]
		if !metav1.IsControlledBy(m, e) {
			continue
		}
		after := m.DeepCopy()
		after.OwnerReferences = without(m.OwnerReferences, e)
		err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{}))
		if client.IgnoreNotFound(err) != nil {
			failed = append(failed, fmt.Errorf("handing Machine %s over to EtcdCluster %s: %w", m.Name, e.Name, err))
		}
	}
	return errors.Join(failed...)
}

// handOverSecrets makes the EtcdCluster the controller of the secrets that the other controller made, which renews them then.
func (c *Controller) handOverSecrets(
	ctx context.Context, e *v1beta1.EtcdadmCluster, etcd *v1alpha1.EtcdCluster, cluster *clusterv1.Cluster,
) error {
	var failed []error
	for _, purpose := range []secret.Purpose{certs.ManagedEtcd, secret.EtcdCA, secret.APIServerEtcdClient} {
		name := secret.Name(cluster.Name, purpose)
		found := &corev1.Secret{}
		err := c.Client.Get(ctx, client.ObjectKey{Namespace: e.Namespace, Name: name}, found)
		if apierrors.IsNotFound(err) || err == nil && !metav1.IsControlledBy(found, e) {
			continue
		}
		if err == nil {
			after := found.DeepCopy()
			after.OwnerReferences = append(without(found.OwnerReferences, e),
				*metav1.NewControllerRef(etcd, v1alpha1.GroupVersion.WithKind("EtcdCluster")))
			err = c.Client.Patch(ctx, after, client.MergeFromWithOptions(found, client.MergeFromWithOptimisticLock{}))
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("handing secret %s over to EtcdCluster %s: %w", name, e.Name, err))
		}
	}
	return errors.Join(failed...)
}

// without returns owners without an EtcdadmCluster.
func without(owners []metav1.OwnerReference, e *v1beta1.EtcdadmCluster) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(owners), func(o metav1.OwnerReference) bool { return o.UID == e.UID })
}
