package provider

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// Options are what the provider works with.
type Options struct {
	// Host makes the machines.
	Host *sandbox.Host
	// Network is the host's range of addresses: the same that Host was opened with.
	Network netip.Prefix
	// State is the environment's folder; endpoints keep their files in it.
	State string
	// NodeBinary is the program quorate-node, which serves endpoints.
	NodeBinary string
	// Artifacts returns what runs on machines, made if it is not there, which may take minutes. It is called
	// in the background, with the context of Setup.
	Artifacts func(ctx context.Context, kubernetesVersion string) (*artifacts.Set, error)
	// EtcdArtifacts returns what runs on machines of etcd, as Artifacts does.
	EtcdArtifacts func(ctx context.Context) (*artifacts.Set, error)
	// Upgrader returns the file of the image that brings nodes to the version of a set, made if it is not there; nil: nothing is brought to
	// machines for upgrades in place.
	Upgrader func(ctx context.Context, set *artifacts.Set) (string, error)
	// Workload returns a client of a cluster itself, which reads without a cache; nil: what clusters know of machines that are gone
	// is left to them.
	Workload func(ctx context.Context, cluster client.ObjectKey) (client.Client, error)
	// WatchFilter limits the work to objects whose label cluster.x-k8s.io/watch-filter has this value; empty: all.
	WatchFilter string
}

// Setup adds the controllers of LocalClusters and LocalMachines to the manager. It reads Host.Changed, which no other code may.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options, c controller.Options) error {
	return setup(ctx, mgr, o, c, o.Host, hostAddresses{o.Host})
}

func setup(ctx context.Context, mgr ctrl.Manager, o Options, c controller.Options, host machines, given addresses) error {
	w := &wiring{mgr: mgr, filter: o.WatchFilter, options: c, ended: make(chan event.GenericEvent), changed: make(chan event.GenericEvent),
		built: make(chan event.GenericEvent)}
	served := &endpoints{
		state: o.State, nodeBinary: o.NodeBinary, addresses: given, watched: map[client.ObjectKey]bool{},
		ended: func(key client.ObjectKey) { send(ctx, w.ended, key) },
	}
	booted, err := bootTime()
	if err != nil {
		return err
	}
	clusters := &clusterReconciler{
		client: mgr.GetClient(), machines: host, network: o.Network, endpoints: served, given: map[client.ObjectKey]netip.Addr{},
	}
	made := &machineReconciler{
		client: mgr.GetClient(), machines: host, endpoints: served, claims: newClaims(o.Network), booted: booted,
		told: map[client.ObjectKey]bool{}, workload: o.Workload,
		preparesImages: o.Upgrader != nil,
		builds: newBuilds(
			func(version string) (*artifacts.Set, error) {
				if version == etcdBuild {
					return o.EtcdArtifacts(ctx)
				}
				return o.Artifacts(ctx, version)
			},
			func() { send(ctx, w.built, client.ObjectKey{}) }),
	}
	if o.Upgrader != nil {
		if err := w.upgrades(newImporter(host, newBuilds(o.upgradeSet(ctx), func() {}))); err != nil {
			return fmt.Errorf("setting up the controllers of upgrades: %w", err)
		}
	}
	if err := w.cluster(ctx, clusters); err != nil {
		return fmt.Errorf("setting up the controller of LocalClusters: %w", err)
	}
	if err := w.machine(made); err != nil {
		return fmt.Errorf("setting up the controller of LocalMachines: %w", err)
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		w.relay(ctx, host.Changed())
		return nil
	}))
}

// upgradeSet returns what makes the images that an upgrade to a version needs on a machine: the upgrader's first, and the version's own.
func (o Options) upgradeSet(ctx context.Context) func(version string) (*artifacts.Set, error) {
	return func(version string) (*artifacts.Set, error) {
		set, err := o.Artifacts(ctx, version)
		if err != nil {
			return nil, err
		}
		file, err := o.Upgrader(ctx, set)
		if err != nil {
			return nil, err
		}
		return &artifacts.Set{Kubernetes: set.Kubernetes, Images: append([]string{file}, set.Images...)}, nil
	}
}

// bootTime is when the host was booted.
func bootTime() (time.Time, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return time.Time{}, fmt.Errorf("asking when the host was booted: %w", err)
	}
	return time.Now().Add(-time.Duration(info.Uptime) * time.Second), nil
}

// send passes the name of an object on, or gives up when ctx ends.
func send(ctx context.Context, to chan<- event.GenericEvent, key client.ObjectKey) {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case to <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}

// wiring says what makes which object be looked at again. At rest nothing does.
type wiring struct {
	mgr     ctrl.Manager
	filter  string
	options controller.Options
	// ended carries LocalClusters whose endpoint process ended, changed names of machines on the host that changed, built
	// that a build has ended.
	ended, changed, built chan event.GenericEvent
}

// relay hands on what the host tells of its machines.
func (w *wiring) relay(ctx context.Context, names <-chan string) {
	for {
		select {
		case <-ctx.Done():
			return
		case name := <-names:
			send(ctx, w.changed, client.ObjectKey{Name: name})
		}
	}
}

func (w *wiring) cluster(ctx context.Context, r *clusterReconciler) error {
	scheme, log := w.mgr.GetScheme(), w.mgr.GetLogger().WithValues("controller", "localcluster")
	kind := infrav1.GroupVersion.WithKind("LocalCluster")
	return ctrl.NewControllerManagedBy(w.mgr).
		For(&infrav1.LocalCluster{}).
		WithOptions(w.options).
		WithEventFilter(w.events()).
		Watches(&clusterv1.Cluster{},
			handler.EnqueueRequestsFromMapFunc(util.ClusterToInfrastructureMapFunc(ctx, kind, w.mgr.GetClient(), &infrav1.LocalCluster{})),
			builder.WithPredicates(predicates.ClusterPausedTransitions(scheme, log))).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster),
			builder.WithPredicates(serving, predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.LocalMachine{}, handler.EnqueueRequestsFromMapFunc(r.ofCluster),
			builder.WithPredicates(predicate.ResourceVersionChangedPredicate{})).
		WatchesRawSource(source.Channel(w.ended, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// events are those of objects with the label of the filter, if there is one.
func (w *wiring) events() predicate.Predicate {
	return predicates.ResourceHasFilterLabel(w.mgr.GetScheme(), w.mgr.GetLogger(), w.filter)
}

// serving are the Machines that an endpoint may have as backends.
var serving = predicate.NewPredicateFuncs(func(o client.Object) bool {
	_, controlPlane := o.GetLabels()[clusterv1.MachineControlPlaneLabel]
	_, etcd := o.GetLabels()[etcdclusterv1alpha1.MachineLabel]
	return controlPlane || etcd
})

// ofCluster maps anything of a cluster to its LocalCluster.
func (r *clusterReconciler) ofCluster(ctx context.Context, o client.Object) []ctrl.Request {
	name := o.GetLabels()[clusterv1.ClusterNameLabel]
	var all infrav1.LocalClusterList
	if name == "" || r.client.List(ctx, &all, client.InNamespace(o.GetNamespace())) != nil {
		return nil
	}
	var requests []ctrl.Request
	for i := range all.Items {
		if clusterName(&all.Items[i]) == name {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return requests
}

func (w *wiring) machine(r *machineReconciler) error {
	scheme, log := w.mgr.GetScheme(), w.mgr.GetLogger().WithValues("controller", "localmachine")
	ofCluster, err := util.ClusterToTypedObjectsMapper(w.mgr.GetClient(), &infrav1.LocalMachineList{}, scheme)
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(w.mgr).
		For(&infrav1.LocalMachine{}).
		WithOptions(w.options).
		WithEventFilter(w.events()).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitionsOrInfrastructureProvisioned(scheme, log))).
		Watches(&clusterv1.Machine{},
			handler.EnqueueRequestsFromMapFunc(util.MachineToInfrastructureMapFunc(infrav1.GroupVersion.WithKind("LocalMachine"))),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&infrav1.LocalMachine{}, handler.EnqueueRequestsFromMapFunc(r.peers), builder.WithPredicates(moved)).
		WatchesRawSource(source.Channel(w.changed, handler.EnqueueRequestsFromMapFunc(r.named))).
		WatchesRawSource(source.Channel(w.built, handler.EnqueueRequestsFromMapFunc(r.unmade))).
		Complete(r)
}

// upgrades sets up what brings images to machines. An import takes seconds, so that several machines have theirs at once.
func (w *wiring) upgrades(i *importer) error {
	options := w.options
	options.MaxConcurrentReconciles = max(options.MaxConcurrentReconciles, 4)
	err := ctrl.NewControllerManagedBy(w.mgr).Named("localimages").For(&upgradev1.NodeUpgrade{}).
		WithOptions(options).WithEventFilter(w.events()).
		Complete(&imagesReconciler{client: w.mgr.GetClient(), live: w.mgr.GetAPIReader(), importer: i})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(w.mgr).Named("localimages-controlplane").For(&upgradev1.ControlPlaneUpgrade{}).
		WithOptions(w.options).WithEventFilter(w.events()).
		Complete(&aheadReconciler{client: w.mgr.GetClient(), importer: i, read: readControlPlaneUpgrade})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(w.mgr).Named("localimages-machinedeployment").For(&upgradev1.MachineDeploymentUpgrade{}).
		WithOptions(w.options).WithEventFilter(w.events()).
		Complete(&aheadReconciler{client: w.mgr.GetClient(), importer: i, read: readMachineDeploymentUpgrade})
}

// moved lets through what changes other machines' routes: a machine that comes, goes, or gets its addresses.
var moved = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		old, isOld := e.ObjectOld.(*infrav1.LocalMachine)
		now, isNow := e.ObjectNew.(*infrav1.LocalMachine)
		return isOld && isNow && claimOf(old) != claimOf(now)
	},
}

// peers maps a machine to the other machines of its cluster.
func (r *machineReconciler) peers(ctx context.Context, o client.Object) []ctrl.Request {
	return r.list(ctx, func(lm *infrav1.LocalMachine) bool {
		return lm.Name != o.GetName() && clusterName(lm) == clusterName(o)
	}, client.InNamespace(o.GetNamespace()))
}

// named maps the name of a machine on the host to its LocalMachine.
func (r *machineReconciler) named(ctx context.Context, o client.Object) []ctrl.Request {
	return r.list(ctx, func(lm *infrav1.LocalMachine) bool { return lm.Name == o.GetName() })
}

// unmade are the LocalMachines that may wait for a build.
func (r *machineReconciler) unmade(ctx context.Context, _ client.Object) []ctrl.Request {
	return r.list(ctx, func(lm *infrav1.LocalMachine) bool { return !ptr.Deref(lm.Status.Initialization.Provisioned, false) })
}

func (r *machineReconciler) list(ctx context.Context, wanted func(*infrav1.LocalMachine) bool, of ...client.ListOption) []ctrl.Request {
	var all infrav1.LocalMachineList
	if err := r.client.List(ctx, &all, of...); err != nil {
		return nil
	}
	var requests []ctrl.Request
	for i := range all.Items {
		if wanted(&all.Items[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&all.Items[i])})
		}
	}
	return requests
}
