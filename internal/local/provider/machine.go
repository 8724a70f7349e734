package provider

import (
	"context"
	"fmt"
	"net/netip"
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

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// machineReconciler makes a machine of each LocalMachine.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=localmachines,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=localmachines/status;localmachines/finalizers,verbs=get;update;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=localclusters;localmachinetemplates,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get
type machineReconciler struct {
	client    client.Client
	machines  machines
	endpoints interface {
		drained(key client.ObjectKey, backend string) bool
	}
	builds *builds
	claims *claims
	// workload returns a client of a cluster itself; nil where there are none.
	workload func(context.Context, client.ObjectKey) (client.Client, error)
	// preparesImages: images are brought to machines for upgrades in place.
	preparesImages bool
	// booted is when the host was: what ended before must be started again.
	booted time.Time

	mu sync.Mutex
	// told are machines whose bootstrap data is with them already.
	told map[client.ObjectKey]bool
}

// owner is whose machine a LocalMachine is.
type owner struct {
	cluster *clusterv1.Cluster
	machine *clusterv1.Machine
}

// Reconcile brings one LocalMachine closer to what it wants.
func (r *machineReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	lm := &infrav1.LocalMachine{}
	if err := r.client.Get(ctx, req.NamespacedName, lm); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if released(lm, infrav1.MachineFinalizer) {
		return ctrl.Result{}, nil
	}
	of, err := r.ownerOf(ctx, lm)
	if err != nil {
		return ctrl.Result{}, err
	}
	if ready, err := r.begin(ctx, lm, of); err != nil || !ready {
		return ctrl.Result{}, err
	}
	return r.reconcile(ctx, lm, of)
}

// begin writes what comes before all else, the finalizer and whether the machine is paused, and reports whether to go on.
func (r *machineReconciler) begin(ctx context.Context, lm *infrav1.LocalMachine, of owner) (bool, error) {
	if of.machine != nil {
		if _, err := finalizers.EnsureFinalizer(ctx, r.client, lm, infrav1.MachineFinalizer); err != nil {
			return false, client.IgnoreNotFound(fmt.Errorf("adding the finalizer of LocalMachine %s: %w", client.ObjectKeyFromObject(lm), err))
		}
	}
	if of.cluster == nil {
		return true, nil
	}
	isPaused, again, err := paused.EnsurePausedCondition(ctx, r.client, of.cluster, lm)
	return !isPaused && !again, err
}

// reconcile does what a LocalMachine needs that is not paused, and writes what has changed in it.
func (r *machineReconciler) reconcile(ctx context.Context, lm *infrav1.LocalMachine, of owner) (_ ctrl.Result, failure error) {
	helper, err := patch.NewHelper(lm, r.client)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("reading LocalMachine %s: %w", client.ObjectKeyFromObject(lm), err)
	}
	defer func() {
		err := save(ctx, helper, lm, infrav1.MachineFinalizer, clusterv1.ReadyCondition, infrav1.SandboxReadyCondition,
			infrav1.BootstrapSucceededCondition)
		failure = kerrors.NewAggregate([]error{failure, err})
	}()
	if !lm.DeletionTimestamp.IsZero() {
		return r.delete(ctx, lm, of)
	}
	if missing := of.missing(); missing != nil {
		mark(lm, clusterv1.ReadyCondition, "", missing)
		return ctrl.Result{}, nil
	}
	return r.normal(ctx, lm, of)
}

// missing is why no machine can be made for the owner yet; nil: it can.
func (o owner) missing() *problem {
	switch {
	case o.machine == nil || o.cluster == nil:
		return &problem{infrav1.WaitingForOwnerReason, "no Machine of a Cluster refers to it with spec.infrastructureRef"}
	case !ptr.Deref(o.cluster.Status.Initialization.InfrastructureProvisioned, false):
		return &problem{infrav1.WaitingForClusterReason, "waiting for the endpoint of cluster " + o.cluster.Name}
	default:
		return nil
	}
}

// ownerOf reads the Machine and the Cluster; each is nil when it is not known or gone.
func (r *machineReconciler) ownerOf(ctx context.Context, lm *infrav1.LocalMachine) (owner, error) {
	machine, err := util.GetOwnerMachine(ctx, r.client, lm.ObjectMeta)
	if err != nil && !apierrors.IsNotFound(err) {
		return owner{}, fmt.Errorf("reading the Machine of LocalMachine %s: %w", lm.Name, err)
	}
	name := clusterName(lm)
	if machine != nil {
		name = machine.Spec.ClusterName
	}
	if name == "" {
		return owner{machine: machine}, nil
	}
	cluster, err := util.GetClusterByName(ctx, r.client, lm.Namespace, name)
	if err != nil && !apierrors.IsNotFound(err) {
		return owner{}, fmt.Errorf("reading the Cluster of LocalMachine %s: %w", lm.Name, err)
	}
	return owner{machine: machine, cluster: cluster}, nil
}

// normal has the machine there, running, connected and told what to do, and reports how far that got.
func (r *machineReconciler) normal(ctx context.Context, lm *infrav1.LocalMachine, of owner) (ctrl.Result, error) {
	s, result, missing, err := r.ensure(ctx, lm, of)
	if missing != nil {
		mark(lm, infrav1.SandboxReadyCondition, "", missing)
		if !ptr.Deref(lm.Status.Initialization.Provisioned, false) {
			mark(lm, infrav1.BootstrapSucceededCondition, "", notBegun(of))
		}
		mark(lm, clusterv1.ReadyCondition, "", firstProblem(lm))
		return result, err
	}
	if err != nil {
		return result, err
	}
	if r.preparesImages {
		annotations.AddAnnotations(lm, map[string]string{upgradev1.PrepareAnnotation: "true"})
	}
	lm.Spec.ProviderID = providerID(lm.Name)
	if s.Owner != "" {
		annotations.AddAnnotations(lm, map[string]string{infrav1.OwnerAnnotation: s.Owner})
	}
	lm.Status.Addresses = []clusterv1.MachineAddress{
		{Type: clusterv1.MachineHostName, Address: lm.Name},
	}
	for _, a := range s.Addresses() {
		lm.Status.Addresses = append(lm.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: a.String()})
	}
	lm.Status.PodCIDR = s.PodCIDR.String()
	if s.IPv6Only {
		lm.Status.PodCIDR = s.PodCIDR6.String()
	}
	lm.Status.FailureDomain = s.FailureDomain
	lm.Status.Resources = resourcesOf(s.Resources)
	if s.Ready {
		lm.Status.Initialization.Provisioned = ptr.To(true)
	}
	refused, err := r.tell(ctx, lm, of, s)
	if refused == nil {
		refused = bootstrapProblem(s, of, lm.Status.BootstrapToken)
	}
	mark(lm, infrav1.SandboxReadyCondition, infrav1.RunningReason, sandboxProblem(s))
	mark(lm, infrav1.BootstrapSucceededCondition, infrav1.BootstrapSucceededReason, refused)
	mark(lm, clusterv1.ReadyCondition, clusterv1.ReadyReason, firstProblem(lm))
	return ctrl.Result{}, kerrors.NewAggregate([]error{err, r.connect(ctx, lm, of)})
}

// providerID is how Cluster API tells which Node is on a machine: the kubelet registers with the same.
func providerID(name string) string { return "local://" + name }

// connect gives the machine its routes to the pods of the cluster's other machines.
func (r *machineReconciler) connect(ctx context.Context, lm *infrav1.LocalMachine, of owner) error {
	var all infrav1.LocalMachineList
	if err := r.client.List(ctx, &all, client.InNamespace(lm.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: of.cluster.Name}); err != nil {
		return fmt.Errorf("listing the machines of cluster %s: %w", of.cluster.Name, err)
	}
	networks, err := podNetwork(of.cluster.Spec.ClusterNetwork.Pods.CIDRBlocks)
	if err != nil {
		return fmt.Errorf("reading the pod networks of cluster %s: %w", of.cluster.Name, err)
	}
	peers := map[netip.Prefix]netip.Addr{}
	for i := range all.Items {
		c := claimOf(&all.Items[i])
		if all.Items[i].Name == lm.Name || !c.address.IsValid() || !c.pods.IsValid() {
			continue
		}
		peers[c.pods] = c.address
		if part := networks.part6(c.pods); part.IsValid() {
			peers[part] = sandbox.Address6(r.claims.network, c.address)
		}
	}
	if err := r.machines.SetPeers(ctx, lm.Name, peers); err != nil {
		return fmt.Errorf("setting the routes of machine %s: %w", lm.Name, err)
	}
	return nil
}

// claimOf reads from an object what its machine has.
func claimOf(lm *infrav1.LocalMachine) claim {
	c := claim{holder: machineNamed(lm.Name), cluster: lm.Namespace + "/" + clusterName(lm)}
	for _, a := range lm.Status.Addresses {
		if a.Type == clusterv1.MachineInternalIP && !c.address.IsValid() {
			c.address, _ = netip.ParseAddr(a.Address)
		}
	}
	c.pods, _ = netip.ParsePrefix(lm.Status.PodCIDR)
	return c
}

// delete waits as long as the object asks, lets connections to the machine end, removes it and lets the object go.
func (r *machineReconciler) delete(ctx context.Context, lm *infrav1.LocalMachine, of owner) (ctrl.Result, error) {
	mine, draining, err := r.beforeDeletion(lm, of)
	if err != nil {
		return ctrl.Result{}, err
	}
	if later, p := beforeRemoval(lm); mine && p != nil {
		mark(lm, clusterv1.ReadyCondition, "", p)
		return ctrl.Result{RequeueAfter: later}, nil
	}
	if draining {
		mark(lm, clusterv1.ReadyCondition, "", &problem{infrav1.DeletingReason, "its connections through the endpoint are being closed"})
		return ctrl.Result{RequeueAfter: lookAtDrain}, nil
	}
	if mine {
		if err := r.machines.Delete(ctx, lm.Name); err != nil {
			mark(lm, clusterv1.ReadyCondition, "", &problem{infrav1.DeletingReason, fmt.Sprintf("the machine cannot be removed: %v", err)})
			return ctrl.Result{}, fmt.Errorf("removing machine %s: %w", lm.Name, err)
		}
		r.forget(ctx, lm, of)
	}
	key := client.ObjectKeyFromObject(lm)
	r.claims.drop(key)
	r.mu.Lock()
	delete(r.told, key)
	r.mu.Unlock()
	controllerutil.RemoveFinalizer(lm, infrav1.MachineFinalizer)
	return ctrl.Result{}, nil
}

// nameProblem is why a machine cannot have a name; nil: it can.
func nameProblem(name string) *problem {
	if len(name) <= 63 && !strings.Contains(name, ".") {
		return nil
	}
	return &problem{infrav1.SpecInvalidReason,
		fmt.Sprintf("the name %q cannot be a machine's host name: want at most 63 characters without dots", name)}
}
