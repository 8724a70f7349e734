package provider

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/cluster-api/util/paused"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=etcdadmconfigs,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=etcdadmconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=bootstrap.cluster.x-k8s.io,resources=etcdadmconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups=etcdcluster.cluster.x-k8s.io,resources=etcdclusters,verbs=get;list;watch
// +kubebuilder:rbac:groups=etcdcluster.cluster.x-k8s.io,resources=etcdclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=*,verbs=get;list;watch
// +kubebuilder:rbac:groups=backup.quorate.io,resources=etcdrecoveries,verbs=list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;delete
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;update

// Controller writes bootstrap data.
type Controller struct {
	// Client reads from the cache, secrets and ConfigMaps aside.
	Client client.Client
	// APIReader reads what must not be out of date.
	APIReader client.Reader
	// WatchFilter limits the work to objects whose label cluster.x-k8s.io/watch-filter has this value; empty: all.
	WatchFilter string

	// dropped are the UIDs of configurations whose bootstrap data have no private keys any more: their secrets are not read again.
	dropped sync.Map
}

// scope is one configuration, and whose it is.
type scope struct {
	config  *bootstrapv1alpha1.EtcdadmConfig
	machine *clusterv1.Machine
	cluster *clusterv1.Cluster
	// etcd is the EtcdCluster that the Machine belongs to; nil while it is not known.
	etcd *etcdclusterv1alpha1.EtcdCluster
}

// obstacle is why there is no bootstrap data yet: a condition, a word for programs and a sentence for people. It is not an error: trying
// again at once would not help.
type obstacle struct {
	condition, reason, message string
	// unwatched: nothing tells when it is gone.
	unwatched bool
}

// waits is an obstacle to the data.
func waits(reason, format string, args ...any) *obstacle {
	return &obstacle{condition: bootstrapv1alpha1.DataSecretAvailableCondition, reason: reason, message: fmt.Sprintf(format, args...)}
}

// Reconcile brings one configuration closer to its bootstrap data.
func (r *Controller) Reconcile(ctx context.Context, req ctrl.Request) (_ ctrl.Result, failure error) {
	config := &bootstrapv1alpha1.EtcdadmConfig{}
	if err := r.Client.Get(ctx, req.NamespacedName, config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !config.DeletionTimestamp.IsZero() {
		// Its secret goes with it.
		return ctrl.Result{}, nil
	}
	s, err := r.scopeOf(ctx, config)
	if err != nil {
		return ctrl.Result{}, err
	}
	if wait, err := r.paused(ctx, s); err != nil || wait {
		return ctrl.Result{}, err
	}
	helper, err := patch.NewHelper(config, r.Client)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading EtcdadmConfig %s: %w", req, err)
	}
	defer func() {
		failure = kerrors.NewAggregate([]error{failure, save(ctx, helper, config, failure)})
	}()
	o, err := r.bootstrap(ctx, s)
	if err != nil || o == nil {
		return ctrl.Result{}, err
	}
	o.mark(config)
	if o.unwatched {
		return ctrl.Result{RequeueAfter: askAgain}, nil
	}
	return ctrl.Result{}, nil
}

// paused keeps the condition, and reports whether nothing is to be done now.
func (r *Controller) paused(ctx context.Context, s *scope) (bool, error) {
	if s.cluster == nil {
		return false, nil
	}
	isPaused, again, err := paused.EnsurePausedCondition(ctx, r.Client, s.cluster, s.config)
	return isPaused || again, err
}

// mark has the conditions tell the obstacle: that which it is about, and always that of the data.
func (o *obstacle) mark(config *bootstrapv1alpha1.EtcdadmConfig) {
	for _, condition := range []string{o.condition, bootstrapv1alpha1.DataSecretAvailableCondition} {
		conditions.Set(config, metav1.Condition{
			Type: condition, Status: metav1.ConditionFalse, Reason: o.reason, Message: plaintext.Shown(o.message),
		})
	}
}

// scopeOf reads whose configuration it is. What is not there is nil.
func (r *Controller) scopeOf(ctx context.Context, config *bootstrapv1alpha1.EtcdadmConfig) (*scope, error) {
	s := &scope{config: config}
	var err error
	s.machine, err = util.GetOwnerMachine(ctx, r.Client, config.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Machine of EtcdadmConfig %s: %w", config.Name, err)
	}
	if s.machine == nil {
		return s, nil
	}
	s.cluster, err = util.GetClusterByName(ctx, r.Client, config.Namespace, s.machine.Spec.ClusterName)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Cluster of Machine %s: %w", s.machine.Name, err)
	}
	name := etcdClusterOf(s.machine)
	if name == "" {
		return s, nil
	}
	found := &etcdclusterv1alpha1.EtcdCluster{}
	switch err := r.Client.Get(ctx, client.ObjectKey{Namespace: config.Namespace, Name: name}, found); {
	case err == nil:
		s.etcd = found
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading EtcdCluster %s: %w", name, err)
	}
	return s, nil
}

// etcdClusterOf is the name of the EtcdCluster that owns a Machine; empty: none does.
func etcdClusterOf(m *clusterv1.Machine) string {
	for _, ref := range m.OwnerReferences {
		if ref.Kind == "EtcdCluster" && ref.APIVersion == etcdclusterv1alpha1.GroupVersion.String() {
			return ref.Name
		}
	}
	return ""
}

// save writes what changed, with the summary of all conditions.
func save(ctx context.Context, helper *patch.Helper, config *bootstrapv1alpha1.EtcdadmConfig, failure error) error {
	known := conditions.ForConditionTypes{bootstrapv1alpha1.DataSecretAvailableCondition, bootstrapv1alpha1.CertificatesAvailableCondition}
	summary := conditions.CustomMergeStrategy{MergeStrategy: conditions.DefaultMergeStrategy(
		conditions.ComputeReasonFunc(conditions.GetDefaultComputeMergeReasonFunc(
			clusterv1.NotReadyReason, clusterv1.ReadyUnknownReason, clusterv1.ReadyReason)),
	)}
	// What comes later need not be asked for while something before it is missing.
	later := conditions.IgnoreTypesIfMissing{bootstrapv1alpha1.CertificatesAvailableCondition}
	if err := conditions.SetSummaryCondition(config, config, clusterv1.ReadyCondition, known, later, summary); err != nil {
		return fmt.Errorf("summing up the conditions of EtcdadmConfig %s: %w", config.Name, err)
	}
	options := []patch.Option{patch.WithOwnedConditions{Conditions: []string{
		clusterv1.PausedCondition, clusterv1.ReadyCondition,
		bootstrapv1alpha1.DataSecretAvailableCondition, bootstrapv1alpha1.CertificatesAvailableCondition,
	}}}
	if failure == nil {
		options = append(options, patch.WithStatusObservedGeneration{})
	}
	if err := helper.Patch(ctx, config, options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing EtcdadmConfig %s: %w", config.Name, err)
	}
	return nil
}

// available notes that a part is there.
func available(config *bootstrapv1alpha1.EtcdadmConfig, condition string) {
	conditions.Set(config, metav1.Condition{Type: condition, Status: metav1.ConditionTrue, Reason: bootstrapv1alpha1.AvailableReason})
}

// missing is what the data waits for before anything can be decided; nil: nothing.
func (s *scope) missing() *obstacle {
	switch {
	case s.machine == nil || s.cluster == nil:
		return waits(bootstrapv1alpha1.WaitingForOwnerReason, "no Machine of a Cluster refers to it with spec.bootstrap.configRef")
	case !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		return waits(bootstrapv1alpha1.WaitingForClusterInfrastructureReason, "waiting for the infrastructure of cluster %s", s.cluster.Name)
	case s.etcd == nil:
		return waits(bootstrapv1alpha1.WaitingForEtcdClusterReason, "Machine %s belongs to no EtcdCluster that exists", s.machine.Name)
	}
	return nil
}
