// Package host assembles all controllers and webhooks that a single host's management plane needs: Quorate's own, Cluster API's core and
// its kubeadm bootstrap provider, and the local provider. It knows which there are, what each is started with, and how upstream's are tuned
// for speed. It does not know what any of them does, nor where the API server that they talk to comes from.
package host

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	runnable "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quorate/quorate/internal/local/provider"
	"github.com/quorate/quorate/internal/manager"
	"github.com/quorate/quorate/internal/manager/outgoing"
	"github.com/quorate/quorate/internal/upgrade/runtimeclient"
)

// Options say which controllers to run, and over what.
type Options struct {
	// Options are those of Quorate's own controllers. With Embedded their webhooks are always served.
	manager.Options
	// Embedded, when set, runs Cluster API's core and the kubeadm bootstrap provider. Unset: somebody else installed them.
	Embedded *Embedded
	// Local, when set, runs the local provider, which makes machines on this host with it.
	Local *provider.Options
}

// ExtensionOptions say where Quorate's Runtime Extension is served.
type ExtensionOptions = manager.ExtensionOptions

// Scheme returns a new scheme with every kind that any of the controllers uses.
func Scheme() *runtime.Scheme { return manager.Scheme() }

// DefaultExtensionSettings are those of an ExtensionConfig by which nothing is updated in place for machines that do not ask for it.
func DefaultExtensionSettings() map[string]string { return manager.DefaultExtensionSettings() }

// Embedded is what the management plane of a single host needs beyond Quorate's own controllers.
type Embedded struct {
	// Own is how Quorate's own controllers reach the API server, as a user of theirs; nil: as all others do.
	Own *rest.Config
	// RuntimeExtensions has Cluster API's controllers call Runtime Extensions, and update machines in place by them. Off, none can be
	// registered.
	RuntimeExtensions bool
	// FeatureGates are other ones of Cluster API that were chosen, by their names.
	FeatureGates map[string]bool
}

// part is one line of the table of contents: a controller, or a few that are only useful together.
type part struct {
	name string
	// machines: it runs on the host that local machines are on, not with Cluster API's controllers.
	machines bool
	add      func(context.Context, *parts) error
}

// contents are all controllers and webhooks beside Quorate's own, in the order in which they are set up.
//
// Not among them, of upstream's: MachinePool, for which the local provider has no machines; the CRD migrator, as no object
// here was ever stored in an older version. Creating a MachinePool is refused by upstream's webhooks.
var contents = []part{
	{name: "what they share", add: shared},
	{name: "ExtensionConfig", add: addExtensionConfig},
	{name: "Cluster", add: addCluster},
	{name: "Machine", add: addMachine},
	{name: "MachineSet", add: addMachineSet},
	{name: "MachineDeployment", add: addMachineDeployment},
	{name: "MachineHealthCheck", add: addMachineHealthCheck},
	{name: "ClusterResourceSet", add: addClusterResourceSet},
	{name: "ClusterClass", add: addClusterClass},
	{name: "topology", add: addTopology},
	{name: "KubeadmConfig", add: addKubeadmConfig},
	{name: "webhooks of Cluster API", add: addWebhooks},
	{name: "LocalCluster and LocalMachine", machines: true, add: addLocal},
}

// parts is what the parts of one manager share.
type parts struct {
	mgr  ctrl.Manager
	opts Options
	// clusters are upstream's connections to workload clusters; nil when upstream's controllers do not run here.
	clusters clustercache.ClusterCache
	// runtime calls Runtime Extensions for upstream's controllers.
	runtime *runtimeclient.Client
	// metadata are those of all secrets; the manager's cache has a part of them.
	metadata cache.Cache
	// secrets reads secrets of clusters from the cache.
	secrets client.Client
	// patient is the client of controllers that count what they created.
	patient client.Client
}

// New returns a manager that is fit for Setup, as manager.New does.
func New(cfg *rest.Config, base ctrl.Options, o Options) (ctrl.Manager, error) {
	o.ManagedFields = o.Embedded != nil
	return manager.New(cfg, base, o.Options)
}

// Setup adds all controllers and webhooks that the options ask for. In the embedded case the CRDs must be served by then.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	own, err := ownManager(mgr, o)
	if err != nil {
		return err
	}
	all := &parts{mgr: mgr, opts: o}
	for _, p := range contents {
		if !o.runs(p) {
			continue
		}
		if err := p.add(ctx, all); err != nil {
			return fmt.Errorf("setting up %s: %w", p.name, err)
		}
	}
	o.Serving, o.Webhooks, o.LeaveLabelled = mgr, o.Webhooks || o.Embedded != nil, o.Embedded != nil
	return manager.Setup(ctx, own, o.Options)
}

// runs reports whether a part runs with these options.
func (o *Options) runs(p part) bool {
	if p.machines {
		return o.Local != nil
	}
	return o.Embedded != nil
}

// ownManager chooses Cluster API's features, and returns the manager of Quorate's own controllers: one of theirs where they have a user of
// theirs.
func ownManager(mgr ctrl.Manager, o Options) (ctrl.Manager, error) {
	if o.Embedded == nil {
		return mgr, nil
	}
	if err := setGates(o.Embedded.RuntimeExtensions, o.Embedded.FeatureGates); err != nil {
		return nil, err
	}
	if o.Embedded.Own == nil {
		return mgr, nil
	}
	own, err := beside(mgr, o)
	if err != nil {
		return nil, fmt.Errorf("setting up the manager of Quorate's own controllers: %w", err)
	}
	return own, nil
}

// ownShutdown is how long Quorate's own controllers may take to end, as a part of the time that all have.
const ownShutdown = 5 * time.Second

// beside returns a manager for Quorate's own controllers that runs as a part of another one, as another user. What they
// need and have not been granted fails on a single host as it would in a management cluster. Webhooks, metrics and
// probes are the other manager's.
func beside(mgr ctrl.Manager, o Options) (ctrl.Manager, error) {
	limit := ownShutdown
	own, err := manager.New(o.Embedded.Own, ctrl.Options{
		Logger: mgr.GetLogger(), Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: &limit,
	}, o.Options)
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(runnable.RunnableFunc(own.Start)); err != nil {
		return nil, fmt.Errorf("adding Quorate's own controllers: %w", err)
	}
	return own, nil
}

func addLocal(ctx context.Context, p *parts) error {
	o := *p.opts.Local
	if p.clusters != nil {
		o.Workload = p.clusters.GetUncachedClient
	}
	return provider.Setup(ctx, p.mgr, o, p.opts.Controller())
}

// Logger returns a logger like l whose lines have no secrets and nothing that a terminal would act on: see package outgoing.
func Logger(l logr.Logger) logr.Logger { return outgoing.Logger(l) }
