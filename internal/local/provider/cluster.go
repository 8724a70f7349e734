package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/finalizers"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/balancer"
)

// askAgain is how often a LocalCluster asks whether an address that another one had is free.
const askAgain = 30 * time.Second

// clusterReconciler has each LocalCluster's endpoint served.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=localclusters,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=localclusters/status;localclusters/finalizers,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=localmachines,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=etcdcluster.cluster.x-k8s.io,resources=etcdclusters,verbs=list;watch
type clusterReconciler struct {
	client    client.Client
	machines  machines
	network   netip.Prefix
	endpoints interface {
		serve(ctx context.Context, key client.ObjectKey, config balancer.Config) error
		stop(ctx context.Context, key client.ObjectKey) error
		backends(key client.ObjectKey) []balancer.Backend
	}

	mu sync.Mutex
	// given are addresses that were chosen and that the cache may not show yet.
	given map[client.ObjectKey]netip.Addr
}

// Reconcile brings one LocalCluster closer to what it wants.
func (r *clusterReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lc := &infrav1.LocalCluster{}
	if err := r.client.Get(ctx, req.NamespacedName, lc); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if annotations.IsExternallyManaged(lc) || released(lc, infrav1.ClusterFinalizer) {
		return ctrl.Result{}, nil
	}
	cluster, err := util.GetOwnerCluster(ctx, r.client, lc.ObjectMeta)
	if err != nil && !apierrors.IsNotFound(err) {
		return ctrl.Result{}, fmt.Errorf("reading the Cluster of LocalCluster %s: %w", req, err)
	}
	if ready, err := r.begin(ctx, lc, cluster); err != nil || !ready {
		return ctrl.Result{}, err
	}
	return r.reconcile(ctx, lc, cluster)
}

// begin writes what comes before all else, the finalizer and whether the cluster is paused, and reports whether to go on.
func (r *clusterReconciler) begin(ctx context.Context, lc *infrav1.LocalCluster, cluster *clusterv1.Cluster) (bool, error) {
	if cluster == nil {
		return true, nil
	}
	if _, err := finalizers.EnsureFinalizer(ctx, r.client, lc, infrav1.ClusterFinalizer); err != nil {
		return false, client.IgnoreNotFound(fmt.Errorf("adding the finalizer of LocalCluster %s: %w", client.ObjectKeyFromObject(lc), err))
	}
	isPaused, again, err := paused.EnsurePausedCondition(ctx, r.client, cluster, lc)
	return !isPaused && !again, err
}

// reconcile does what a LocalCluster needs that is not paused, and writes what has changed in it.
func (r *clusterReconciler) reconcile(
	ctx context.Context, lc *infrav1.LocalCluster, cluster *clusterv1.Cluster,
) (_ ctrl.Result, failure error) {
	helper, err := patch.NewHelper(lc, r.client)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading LocalCluster %s: %w", client.ObjectKeyFromObject(lc), err)
	}
	defer func() {
		failure = kerrors.NewAggregate([]error{failure, save(ctx, helper, lc, infrav1.ClusterFinalizer, clusterv1.ReadyCondition)})
	}()
	switch {
	case !lc.DeletionTimestamp.IsZero():
		return ctrl.Result{}, r.delete(ctx, lc, cluster)
	case cluster == nil:
		mark(lc, clusterv1.ReadyCondition, "", &problem{infrav1.WaitingForOwnerReason, "no Cluster refers to it with spec.infrastructureRef"})
		return ctrl.Result{}, nil
	default:
		return r.normal(ctx, lc, cluster)
	}
}

func (r *clusterReconciler) normal(ctx context.Context, lc *infrav1.LocalCluster, cluster *clusterv1.Cluster) (ctrl.Result, error) {
	chosen, problem, err := r.choose(ctx, lc, cluster)
	if err != nil {
		return ctrl.Result{}, err
	}
	if problem != nil {
		mark(lc, clusterv1.ReadyCondition, "", problem)
		return ctrl.Result{RequeueAfter: askAgain}, nil
	}
	if lc.Spec.ControlPlaneEndpoint != chosen {
		// Written before it is used, so that no other cluster can get it; the write brings us back here.
		lc.Spec.ControlPlaneEndpoint = chosen
		return ctrl.Result{}, nil
	}
	lc.Status.FailureDomains = nil
	for _, name := range lc.Spec.FailureDomains {
		lc.Status.FailureDomains = append(lc.Status.FailureDomains, clusterv1.FailureDomain{Name: name, ControlPlane: ptr.To(true)})
	}
	if problem, err := r.serve(ctx, lc, cluster); err != nil {
		mark(lc, clusterv1.ReadyCondition, "", problem)
		return ctrl.Result{}, err
	}
	lc.Status.EtcdEndpoint = etcdEndpoint(chosen)
	lc.Status.Initialization.Provisioned = ptr.To(true)
	mark(lc, clusterv1.ReadyCondition, infrav1.EndpointServedReason, nil)
	return ctrl.Result{}, nil
}

// serve has the endpoints served for the machines that there are now: that of the API, and that of etcd while there are machines of it.
func (r *clusterReconciler) serve(ctx context.Context, lc *infrav1.LocalCluster, cluster *clusterv1.Cluster) (*problem, error) {
	key, endpoint := client.ObjectKeyFromObject(lc), lc.Spec.ControlPlaneEndpoint
	found, err := r.backends(ctx, lc, cluster)
	if err == nil {
		err = r.endpoints.serve(ctx, key, balancer.Config{Listen: listen(endpoint), Backends: found.api})
	}
	if err == nil {
		endpoint, err = etcdEndpoint(endpoint), r.serveEtcd(ctx, key, endpoint, found)
	}
	if err != nil {
		err = fmt.Errorf("serving the endpoint %s: %w", listen(endpoint), err)
		return &problem{infrav1.EndpointNotServedReason, err.Error()}, err
	}
	return nil, nil
}

func (r *clusterReconciler) serveEtcd(ctx context.Context, key client.ObjectKey, api infrav1.APIEndpoint, found *backends) error {
	endpoint := etcdEndpoint(api)
	if !found.hasEtcd || endpoint.Host == "" {
		return r.endpoints.stop(ctx, ofEtcd(key))
	}
	return r.endpoints.serve(ctx, ofEtcd(key), balancer.Config{Listen: listen(endpoint), Backends: found.etcd})
}

func listen(e infrav1.APIEndpoint) string { return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) }

// etcdEndpoint is where the members of the cluster's etcd clusters are reached as one; none where the API has its port.
func etcdEndpoint(api infrav1.APIEndpoint) infrav1.APIEndpoint {
	if api.Port == etcdclusterv1alpha1.ClientPort {
		return infrav1.APIEndpoint{}
	}
	return infrav1.APIEndpoint{Host: api.Host, Port: etcdclusterv1alpha1.ClientPort}
}

// delete ends the endpoint once no machine needs it.
func (r *clusterReconciler) delete(ctx context.Context, lc *infrav1.LocalCluster, cluster *clusterv1.Cluster) error {
	left, err := r.left(ctx, lc)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		mark(lc, clusterv1.ReadyCondition, "", &problem{infrav1.DeletingReason, "waiting until these machines are gone: " +
			strings.Join(left, ", ")})
		if cluster == nil || lc.Spec.ControlPlaneEndpoint.Host == "" {
			return nil
		}
		_, err := r.serve(ctx, lc, cluster)
		return err
	}
	key := client.ObjectKeyFromObject(lc)
	if err := errors.Join(r.endpoints.stop(ctx, ofEtcd(key)), r.endpoints.stop(ctx, key)); err != nil {
		mark(lc, clusterv1.ReadyCondition, "", &problem{infrav1.DeletingReason, fmt.Sprintf("the endpoint cannot be ended: %v", err)})
		return fmt.Errorf("ending the endpoint of LocalCluster %s: %w", key, err)
	}
	r.mu.Lock()
	delete(r.given, key)
	r.mu.Unlock()
	controllerutil.RemoveFinalizer(lc, infrav1.ClusterFinalizer)
	return nil
}

// left are the names of the cluster's machines, sorted.
func (r *clusterReconciler) left(ctx context.Context, lc *infrav1.LocalCluster) ([]string, error) {
	name := clusterName(lc)
	if name == "" {
		return nil, nil
	}
	var all infrav1.LocalMachineList
	if err := r.client.List(ctx, &all, client.InNamespace(lc.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: name}); err != nil {
		return nil, fmt.Errorf("listing the machines of cluster %s: %w", name, err)
	}
	var names []string
	for _, m := range all.Items {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names, nil
}

// clusterName is the name of the Cluster that an object belongs to; empty while nothing names it.
func clusterName(o client.Object) string {
	for _, owner := range o.GetOwnerReferences() {
		if owner.Kind == "Cluster" && strings.HasPrefix(owner.APIVersion, clusterv1.GroupVersion.Group+"/") {
			return owner.Name
		}
	}
	return o.GetLabels()[clusterv1.ClusterNameLabel]
}
