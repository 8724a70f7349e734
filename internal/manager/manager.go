// Package manager assembles Quorate's own controllers and webhooks for a management cluster. It knows which there are, and what each
// is started with. It does not know what any of them does, who runs Cluster API's other controllers, nor where the
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
	"sigs.k8s.io/cluster-api/controllers/remote"
	"sigs.k8s.io/cluster-api/util/apiwarnings"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/quorate/quorate/internal/manager/backups/recoveries"
	"github.com/quorate/quorate/internal/manager/kinds"
	"github.com/quorate/quorate/internal/manager/outgoing"
	"github.com/quorate/quorate/internal/manager/upgrades"
	"github.com/quorate/quorate/internal/program/untrusted"
)

// Options say which controllers to run, and over what.
type Options struct {
	// Webhooks serves the webhooks of Quorate's own kinds.
	Webhooks bool
	// Extension says where Quorate's Runtime Extension is served; with port 0 it is not.
	Extension ExtensionOptions
	// Providers are those of Quorate's providers whose controllers run; nil: all; empty: none.
	Providers []string
	// Namespace limits the work to one namespace; empty: all.
	Namespace string
	// WatchFilter limits the work to objects whose label cluster.x-k8s.io/watch-filter has this value; empty: all.
	WatchFilter string
	// EtcdForwardOnly reaches etcd's members by port-forwards through the clusters' API servers alone, never at their machines' addresses.
	EtcdForwardOnly bool
	// Bounds are what a managed cluster's API server may answer.
	Bounds untrusted.Bounds
	// Concurrency is how many groups of a kind are worked on at once, those not counted that wait for others than the management cluster; 0:
	// DefaultConcurrency.
	Concurrency int
	// SyncPeriod is after how long every object is looked at again although nothing was reported; 0: 10 minutes.
	SyncPeriod time.Duration
	// UpgraderImage is the image that upgrades nodes in place, with %s for the Kubernetes version, where nothing else names one.
	// Empty: without another source no node is upgraded in place.
	UpgraderImage string
	// Backups say where backups are kept and proven.
	Backups recoveries.Settings
	// LeaveLabelled, without a WatchFilter, leaves groups that have that label to the managers that look for it.
	LeaveLabelled bool
	// ManagedFields: the cache has those of all objects, for controllers of others that share it. Otherwise it has those of groups only.
	ManagedFields bool
	// Serving is the manager that serves the webhooks and the Runtime Extension; nil: the one that the controllers run in.
	Serving ctrl.Manager
}

// part is one line of the table of contents: a controller, or what is served.
type part struct {
	name string
	// provider is the one that it belongs to; empty: it runs in each.
	provider string
	add      func(context.Context, *parts) error
}

// Quorate's providers that have controllers of their own. clusterctl installs each by itself.
const (
	ControlPlaneProvider = "control-plane"
	BootstrapProvider    = "bootstrap"
)

// Providers are all of Quorate's providers that have controllers of their own.
var Providers = []string{ControlPlaneProvider, BootstrapProvider}

// contents are all of Quorate's controllers and webhooks there are, in the order in which they are set up.
var contents = []part{
	{"KubeadmControlPlane", ControlPlaneProvider, addGroup("KubeadmControlPlane")},
	{"ControlPlane", ControlPlaneProvider, addGroup("ControlPlane")},
	{"EtcdCluster", ControlPlaneProvider, addGroup("EtcdCluster")},
	{"EtcdadmCluster", ControlPlaneProvider, addEtcdadmCluster},
	{"EtcdadmConfig", BootstrapProvider, addEtcdadmConfig},
	{"backups", ControlPlaneProvider, addBackups},
	{"NodeUpgrade", ControlPlaneProvider, addUpgrades(upgrades.AddNodes)},
	{"MachineDeploymentUpgrade", ControlPlaneProvider, addUpgrades(upgrades.AddWorkers)},
	{"Runtime Extension", "", addExtension},
	{"webhooks", "", addWebhooks},
}

// parts is what the parts of one manager share.
type parts struct {
	mgr ctrl.Manager
	// serving serves webhooks and the Runtime Extension; it may be mgr.
	serving ctrl.Manager
	opts    Options
}

// Scheme returns a new scheme with every kind that any of the controllers uses.
func Scheme() *runtime.Scheme { return kinds.Scheme() }

// New returns a manager that is fit for Setup: its cache holds secrets of clusters only, and everything else. What its client and its event
// recorders write for people is clean: see package outgoing.
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
	base.NewClient = newGuarded(o.Namespace)
	if base.Controller.CacheSyncTimeout == 0 {
		base.Controller.CacheSyncTimeout = 5 * time.Minute
	}
	mgr, err := ctrl.NewManager(cfg, base)
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	return outgoing.Manager(mgr), nil
}

// Setup adds all controllers and webhooks that the options ask for. Where webhooks are served by another manager, the CRDs must be there by
// then.
func Setup(ctx context.Context, mgr ctrl.Manager, o Options) error {
	shared := &parts{mgr: mgr, serving: mgr, opts: o}
	if o.Serving != nil {
		shared.serving = o.Serving
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
	return p.provider == "" || o.Providers == nil || slices.Contains(o.Providers, p.provider)
}

// Longest and shortest wait before a failed reconciliation is tried again. What usually ends a failure here is seconds
// away (an API server that starts), so waits do not grow to minutes as they do by default.
const (
	shortestRetry = 50 * time.Millisecond
	longestRetry  = 5 * time.Second
)

// DefaultConcurrency is how many groups of a kind are worked on at once unless it is said. More make a small management cluster slower:
// docs/scale.md has figures.
const DefaultConcurrency = 5

// workers is how many objects each controller takes up at once, beside those that --concurrency lets work: most of them wait for others.
const workers = 100

// longestTurn ends a reconcile that waits for something whose own deadline is missing. Every wait that is known has a shorter one.
const longestTurn = 5 * time.Minute

func (o *Options) atOnce() int { return cmp.Or(o.Concurrency, DefaultConcurrency) }

// Controller is what each controller is started with.
func (o *Options) Controller() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers + o.Concurrency,
		ReconciliationTimeout:   longestTurn,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](shortestRetry, longestRetry),
	}
}
