// Package manager assembles the controllers and webhooks of one process: Quorate's own for a management cluster
// that somebody else runs, or all that a single host's management plane needs. It knows which there are, what each
// is started with, and how upstream's are tuned for speed. It does not know what any of them does, nor where the
// API server that they talk to comes from.
package manager

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/controllers/remote"
	"sigs.k8s.io/cluster-api/util/apiwarnings"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quorate/quorate/internal/local"
	"github.com/quorate/quorate/internal/manager/kinds"
	"github.com/quorate/quorate/internal/manager/upgrades"
	"github.com/quorate/quorate/internal/runtimeclient"
)

// Options say which controllers to run, and over what.
type Options struct {
	// Embedded, when set, runs everything that a single host's management plane needs beside the local provider: Cluster API's core, the
	// kubeadm bootstrap provider and Quorate. Unset: only Quorate, beside a Cluster API that somebody else installed.
	Embedded *Embedded
	// Local, when set, runs the local provider, which makes machines on this host with it.
	Local *local.Options
	// Webhooks serves the webhooks of Quorate's own kinds. With Embedded they are always served.
	Webhooks bool
	// Extension says where Quorate's Runtime Extension is served; with port 0 it is not.
	Extension ExtensionOptions
	// Providers are those of Quorate's providers whose controllers run; nil: all; NoProviders: none.
	Providers []string
	// Namespace limits the work to one namespace; empty: all.
	Namespace string
	// WatchFilter limits the work to objects whose label cluster.x-k8s.io/watch-filter has this value; empty: all.
	WatchFilter string
	// EtcdForwardOnly reaches etcd's members by port-forwards through the clusters' API servers alone, never at their machines' addresses.
	EtcdForwardOnly bool
	// Concurrency is how many groups of a kind are worked on at once, those not counted that wait for others than the management cluster; 0: DefaultConcurrency.
	Concurrency int
	// SyncPeriod is after how long every object is looked at again although nothing was reported; 0: 10 minutes.
	SyncPeriod time.Duration
	// UpgraderImage is the image that upgrades nodes in place, with %s for the Kubernetes version, where nothing else names one; empty: upgrades.DefaultUpgraderImage.
	UpgraderImage string
}

// part is one line of the table of contents: a controller, or a few that are only useful together.
type part struct {
	name string
	// runs says where it does.
	runs where
	// provider is the one that it belongs to; empty: it runs in each.
	provider string
	add      func(context.Context, *parts) error
}

// where is what a part needs to run.
type where int

const (
	// onHost: a single host's management plane; other management clusters have it already.
	onHost where = iota
	// everywhere: wherever Quorate runs.
	everywhere
	// withMachines: the host that local machines are on.
	withMachines
)

// Quorate's providers that have controllers of their own. clusterctl installs each by itself.
const (
	ControlPlaneProvider = "control-plane"
	BootstrapProvider    = "bootstrap"
)

// Providers are all of Quorate's providers that have controllers of their own.
var Providers = []string{ControlPlaneProvider, BootstrapProvider}

// NoProviders are none of Quorate's providers.
var NoProviders = []string{}

// contents are all controllers and webhooks there are, in the order in which they are set up.
//
// Not among them, of upstream's: MachinePool, for which the local provider has no machines; the CRD migrator, as no object
// here was ever stored in an older version. Creating a MachinePool is refused by upstream's webhooks.
var contents = []part{
	{name: "shared", add: shared},

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

	{name: "LocalCluster and LocalMachine", runs: withMachines, add: addLocal},

	{name: "KubeadmControlPlane", runs: everywhere, provider: ControlPlaneProvider, add: addGroup("KubeadmControlPlane")},
	{name: "ControlPlane", runs: everywhere, provider: ControlPlaneProvider, add: addGroup("ControlPlane")},
	{name: "EtcdCluster", runs: everywhere, provider: ControlPlaneProvider, add: addGroup("EtcdCluster")},
	{name: "EtcdadmConfig", runs: everywhere, provider: BootstrapProvider, add: addEtcdadmConfig},
	{name: "NodeUpgrade", runs: everywhere, provider: ControlPlaneProvider, add: addUpgrades(upgrades.AddNodes)},
	{name: "MachineDeploymentUpgrade", runs: everywhere, provider: ControlPlaneProvider, add: addUpgrades(upgrades.AddWorkers)},
	{name: "Runtime Extension", runs: everywhere, add: addExtension},
	{name: "webhooks", runs: everywhere, add: addOwnWebhooks},

	{name: "webhooks of Cluster API", add: addWebhooks},
}

// parts is what the parts of one manager share.
type parts struct {
	mgr ctrl.Manager
	// own runs Quorate's own controllers; it may be mgr.
	own  ctrl.Manager
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

// Scheme returns a new scheme with every kind that any of the controllers uses.
func Scheme() *runtime.Scheme { return kinds.Scheme() }

// New returns a manager that is fit for Setup: its cache holds secrets of clusters only. Of all else it holds everything,
// managed fields included: upstream's controllers look at them to see whose a field is, and repair them if there are none.
// What has to do with serving (webhooks, metrics, probes, leader election) is the caller's, in base.
func New(cfg *rest.Config, base ctrl.Options, o Options) (ctrl.Manager, error) {
	if err := listThenWatch(); err != nil {
		return nil, err
	}
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 {
		cfg.QPS, cfg.Burst = 100, 200
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = remote.DefaultClusterAPIUserAgent("quorate")
	}
	cfg.WarningHandler = apiwarnings.DefaultHandler(ctrl.Log.WithName("warning"))
	base.Scheme = Scheme()
	base.Cache = cacheOptions(o)
	base.Client = client.Options{Cache: &client.CacheOptions{
		// Read directly: ConfigMaps are not ours to hold, and of secrets the cache has only a part.
		DisableFor:   []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}},
		Unstructured: true,
	}}
	if base.Controller.CacheSyncTimeout == 0 {
		base.Controller.CacheSyncTimeout = 5 * time.Minute
	}
	mgr, err := ctrl.NewManager(cfg, base)
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	return mgr, nil
}

// Setup adds all controllers and webhooks that the options ask for. In the embedded case the CRDs must be served by then.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	shared := &parts{mgr: mgr, own: mgr, opts: o}
	if o.Embedded != nil {
		if err := shared.embed(); err != nil {
			return err
		}
	}
	for _, p := range contents {
		if !o.runs(p) {
			continue
		}
		if err := p.add(ctx, shared); err != nil {
			return fmt.Errorf("setting up %s: %w", p.name, err)
		}
	}
	return nil
}

// runs reports whether a part runs with these options.
func (o *Options) runs(p part) bool {
	switch p.runs {
	case onHost:
		return o.Embedded != nil
	case withMachines:
		return o.Local != nil
	default:
		return p.provider == "" || o.Providers == nil || slices.Contains(o.Providers, p.provider)
	}
}

// embed chooses Cluster API's features, and gives Quorate's own controllers a manager of theirs where they have a user of theirs.
func (p *parts) embed() error {
	if err := setGates(p.opts.Embedded.RuntimeExtensions); err != nil {
		return err
	}
	if p.opts.Embedded.Own == nil {
		return nil
	}
	own, err := beside(p.mgr, p.opts)
	if err != nil {
		return fmt.Errorf("setting up the manager of Quorate's own controllers: %w", err)
	}
	p.own = own
	return nil
}

// Longest and shortest wait before a failed reconciliation is tried again. What usually ends a failure here is seconds
// away (an API server that starts), so waits do not grow to minutes as they do by default.
const (
	shortestRetry = 50 * time.Millisecond
	longestRetry  = 5 * time.Second
)

// DefaultConcurrency is how many groups of a kind are worked on at once unless it is said. More make a small management cluster slower: docs/scale.md has figures.
const DefaultConcurrency = 5

// workers is how many objects each controller takes up at once, beside those that --concurrency lets work: most of them wait for others.
const workers = 100

func (p *parts) atOnce() int { return cmp.Or(p.opts.Concurrency, DefaultConcurrency) }

func (p *parts) controller() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers + p.opts.Concurrency,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](shortestRetry, longestRetry),
	}
}

func cacheOptions(o Options) cache.Options {
	period := o.SyncPeriod
	if period == 0 {
		period = 10 * time.Minute
	}
	out := cache.Options{
		SyncPeriod: &period,
		ByObject:   map[client.Object]cache.ByObject{&corev1.Secret{}: clusterSecrets()},
	}
	if o.Namespace != "" {
		out.DefaultNamespaces = map[string]cache.Config{o.Namespace: {}}
	}
	return out
}
