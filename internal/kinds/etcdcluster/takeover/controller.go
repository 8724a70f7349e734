package takeover

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/api/etcdcluster/v1beta1"
)

// +kubebuilder:rbac:groups=etcdcluster.cluster.x-k8s.io,resources=etcdadmclusters,verbs=list;watch;patch
// +kubebuilder:rbac:groups=etcdcluster.cluster.x-k8s.io,resources=etcdadmclusters/status,verbs=patch
// +kubebuilder:rbac:groups=etcdcluster.cluster.x-k8s.io,resources=etcdadmclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=etcdcluster.cluster.x-k8s.io,resources=etcdclusters,verbs=list;watch;create;patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=list;watch;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;patch

// Controller keeps the EtcdClusters of EtcdadmClusters.
type Controller struct {
	// Client reads from the cache, secrets aside, and writes.
	Client client.Client
	// WatchFilter limits the work to objects whose label cluster.x-k8s.io/watch-filter has this value; empty: all.
	WatchFilter string
}

// SetupWithManager adds the controller to the manager.
func (c *Controller) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	err := ctrl.NewControllerManagedBy(mgr).
		For(&v1beta1.EtcdadmCluster{}).
		Owns(&v1alpha1.EtcdCluster{}).
		WithOptions(options).
		WithEventFilter(predicates.ResourceHasFilterLabel(mgr.GetScheme(), mgr.GetLogger(), c.WatchFilter)).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(c.ofCluster)).
		Complete(c)
	if err != nil {
		return fmt.Errorf("setting up the controller of EtcdadmClusters: %w", err)
	}
	return nil
}

// ofCluster maps a Cluster to its EtcdadmClusters.
func (c *Controller) ofCluster(ctx context.Context, cluster client.Object) []ctrl.Request {
	var all v1beta1.EtcdadmClusterList
	if err := c.Client.List(ctx, &all, client.InNamespace(cluster.GetNamespace())); err != nil {
		return nil
	}
	var requests []ctrl.Request
	for i := range all.Items {
		if clusterName(&all.Items[i]) == cluster.GetName() {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return requests
}

// clusterName returns the name of the Cluster that an EtcdadmCluster belongs to, by its owner or else its label; empty: none yet.
func clusterName(e *v1beta1.EtcdadmCluster) string {
	for _, owner := range e.OwnerReferences {
		if owner.Kind == "Cluster" {
			return owner.Name
		}
	}
	return e.Labels[clusterv1.ClusterNameLabel]
}

// wait is why an EtcdadmCluster has no EtcdCluster yet: a word for programs and a sentence for people.
type wait struct{ reason, message string }

// Reconcile brings the EtcdCluster of one EtcdadmCluster up to date.
func (c *Controller) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	e := &v1beta1.EtcdadmCluster{}
	if err := c.Client.Get(ctx, req.NamespacedName, e); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	cluster, err := util.GetClusterByName(ctx, c.Client, e.Namespace, clusterName(e))
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("reading the Cluster of EtcdadmCluster %s: %w", req, err)
	}
	if cluster != nil && annotations.IsPaused(cluster, e) {
		return ctrl.Result{}, nil
	}
	before := e.DeepCopy()
	etcd, w, err := c.keep(ctx, e, cluster)
	report(e, etcd, w)
	return ctrl.Result{}, errors.Join(err, c.save(ctx, before, e))
}

// keep has an EtcdCluster there, with what the other controller made, or returns what it waits for.
func (c *Controller) keep(
	ctx context.Context, e *v1beta1.EtcdadmCluster, cluster *clusterv1.Cluster,
) (*v1alpha1.EtcdCluster, *wait, error) {
	if w := missing(e, cluster); w != nil {
		return nil, w, nil
	}
	// The other controller has no more say, and would never take its finalizer off.
	e.Finalizers = slices.DeleteFunc(e.Finalizers, func(f string) bool { return f == v1beta1.OtherFinalizer })
	etcd := &v1alpha1.EtcdCluster{}
	err := c.Client.Get(ctx, client.ObjectKeyFromObject(e), etcd)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("reading EtcdCluster %s: %w", e.Name, err)
	}
	if !e.DeletionTimestamp.IsZero() || err != nil && !cluster.DeletionTimestamp.IsZero() {
		return nil, nil, nil // the EtcdCluster goes with its owner, or after the control plane
	}
	e.OwnerReferences = util.EnsureOwnerRef(e.OwnerReferences, metav1.OwnerReference{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: cluster.Name, UID: cluster.UID,
	})
	exists := err == nil
	if exists && !metav1.IsControlledBy(etcd, e) {
		return nil, &wait{"EtcdClusterOfAnother", fmt.Sprintf("EtcdCluster %s exists and is not of this EtcdadmCluster: delete one of them",
			etcd.Name)}, nil
	}
	wanted, w := specOf(e, exists)
	if w != nil {
		return nil, w, nil
	}
	if exists {
		err = c.update(ctx, etcd, wanted)
	} else {
		etcd, err = c.create(ctx, e, cluster.Name, wanted)
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		return nil, &wait{"SpecInvalid", err.Error()}, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return etcd, nil, errors.Join(c.handOverMachines(ctx, e, cluster), c.handOverSecrets(ctx, e, etcd, cluster))
}

// missing returns what an EtcdadmCluster lacks before Quorate acts on it; nil: nothing.
func missing(e *v1beta1.EtcdadmCluster, cluster *clusterv1.Cluster) *wait {
	switch {
	case slices.Contains(e.Finalizers, v1beta1.OtherFinalizer) && e.Annotations[v1beta1.TakeOverAnnotation] != "true":
		return &wait{"WaitingForTakeOver", fmt.Sprintf("the finalizer %s says that aws/etcdadm-controller keeps this etcd cluster: scale its "+
			"Deployment to 0, "+
			"then set the annotation %s=true", v1beta1.OtherFinalizer, v1beta1.TakeOverAnnotation)}
	case cluster == nil && e.DeletionTimestamp.IsZero():
		return &wait{"WaitingForCluster", fmt.Sprintf("waiting for the Cluster that the label %s names", clusterv1.ClusterNameLabel)}
	}
	return nil
}

// save writes what has changed of an EtcdadmCluster.
func (c *Controller) save(ctx context.Context, before, after *v1beta1.EtcdadmCluster) error {
	status := after.Status.DeepCopy()
	after.Status = before.Status
	if !equality.Semantic.DeepEqual(before.ObjectMeta, after.ObjectMeta) {
		err := c.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsNotFound(err) {
			return nil // without finalizers it went
		}
		if err != nil {
			return fmt.Errorf("writing EtcdadmCluster %s: %w", after.Name, err)
		}
	}
	if equality.Semantic.DeepEqual(after.Status, *status) {
		return nil
	}
	plain := after.DeepCopy()
	after.Status = *status
	if err := c.Client.Status().Patch(ctx, after, client.MergeFrom(plain)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of EtcdadmCluster %s: %w", after.Name, err)
	}
	return nil
}
