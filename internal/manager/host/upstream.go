package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/reconcilers/kubeadmconfig"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/core/reconcilers/cluster"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterclass"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourceset"
	"sigs.k8s.io/cluster-api/core/reconcilers/clusterresourcesetbinding"
	"sigs.k8s.io/cluster-api/core/reconcilers/machine"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinedeployment"
	"sigs.k8s.io/cluster-api/core/reconcilers/machinehealthcheck"
	"sigs.k8s.io/cluster-api/core/reconcilers/machineset"
	topologycluster "sigs.k8s.io/cluster-api/core/reconcilers/topology/cluster"
	topologymachinedeployment "sigs.k8s.io/cluster-api/core/reconcilers/topology/machinedeployment"
	topologymachineset "sigs.k8s.io/cluster-api/core/reconcilers/topology/machineset"
	"sigs.k8s.io/cluster-api/core/setup"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/index"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/quorate/quorate/internal/manager/host/hints"
	"github.com/quorate/quorate/internal/upgrade/runtimeclient"
)

// How long a workload cluster may not answer before upstream's controllers report what they knew of it as unknown;
// upstream's own defaults.
const (
	connectionGrace = 50 * time.Second
	conditionsGrace = 5 * time.Minute
)

// reconnect is after how long a failed connection to a workload cluster is tried again. Upstream waits 30 s, in which
// a cluster that came back looks dead.
const reconnect = 2 * time.Second

// setGates chooses upstream's features. They are one set for the process. Runtime Extensions are alpha, and with updates in place a
// MachineDeployment's rollout fails when the template of its old machines was deleted. So both are off unless they were asked for. chosen
// are further gates.
func setGates(extensions bool, chosen map[string]bool) error {
	gates := map[string]bool{
		string(feature.ClusterTopology): true,
		string(feature.RuntimeSDK):      extensions,
		string(feature.InPlaceUpdates):  extensions,
		// The local provider has no pools; without the gate upstream's webhook refuses them with a reason.
		string(feature.MachinePool): false,
		// The limiter lets a controller look at one object once a second. A machine passes through a chain of four
		// controllers, each of which looks several times: about ten seconds of a bring-up. What it protects from, reads
		// that miss the controller's own last write, is the patient client's work here.
		string(feature.ReconcilerRateLimiting): false,
	}
	maps.Copy(gates, chosen)
	if err := feature.MutableGates.SetFromMap(gates); err != nil {
		return fmt.Errorf("choosing Cluster API's features: %w", err)
	}
	return nil
}

// shared prepares what several of upstream's controllers use: indexes, the connections to workload clusters, clients.
func shared(ctx context.Context, p *parts) error {
	if err := index.AddDefaultIndexes(ctx, p.mgr); err != nil {
		return fmt.Errorf("adding indexes: %w", err)
	}
	secrets, err := setup.CreateSecretCachingClient(p.mgr)
	if err != nil {
		return fmt.Errorf("creating the client for secrets: %w", err)
	}
	p.secrets = secrets
	p.patient = &patient{Client: p.mgr.GetClient(), counted: counted}
	clusters, err := clustercache.SetupWithManager(ctx, p.mgr, clustercache.Options{
		SecretClient:     secrets,
		Cache:            setup.ClusterCacheCacheOptions(),
		Client:           setup.ClusterCacheClientOptions("quorate", 20, 30),
		WatchFilterValue: p.opts.WatchFilter,
		ClusterFilter:    connectable,
	}, p.opts.Controller())
	if err != nil {
		return fmt.Errorf("setting up the connections to workload clusters: %w", err)
	}
	adjustable, ok := clusters.(interface{ SetConnectionCreationRetryInterval(time.Duration) })
	if !ok {
		return errors.New("the retry interval of Cluster API's clustercache can no longer be set: see reconnect")
	}
	adjustable.SetConnectionCreationRetryInterval(reconnect)
	p.clusters = hints.Add(clusters, p.mgr.GetCache(), p.mgr.GetClient())
	if p.runtime, err = runtimeclient.New(p.mgr.GetClient()); err != nil {
		return err
	}
	return p.cacheMetadata()
}

// cacheMetadata makes the cache of secrets' metadata.
func (p *parts) cacheMetadata() error {
	all, err := cache.New(p.mgr.GetConfig(), cache.Options{
		Scheme: p.mgr.GetScheme(), Mapper: p.mgr.GetRESTMapper(), HTTPClient: p.mgr.GetHTTPClient(),
		DefaultTransform: func(in any) (any, error) {
			if _, ok := in.(*metav1.PartialObjectMetadata); !ok {
				return nil, fmt.Errorf("%T in the cache of metadata", in)
			}
			return cache.TransformStripManagedFields()(in)
		},
	})
	if err != nil {
		return fmt.Errorf("creating the cache of secrets' metadata: %w", err)
	}
	if err := p.mgr.Add(all); err != nil {
		return fmt.Errorf("adding the cache of secrets' metadata: %w", err)
	}
	p.metadata = all
	return nil
}

// connectable keeps upstream from connecting to a cluster whose first machine has not come up. It asks for the condition
// beside the field: they are written one after the other, and the kubeadm provider, which an event of
// the connection wakes, looks at the condition. A cluster whose machines no control plane keeps is initialised once a Machine has its Node,
// which only the connection tells: it is tried at once.
func connectable(c *clusterv1.Cluster) bool {
	if !c.Spec.ControlPlaneRef.IsDefined() && !c.Spec.Topology.IsDefined() {
		return true
	}
	done := c.Status.Initialization.ControlPlaneInitialized
	return done != nil && *done && conditions.IsTrue(c, clusterv1.ClusterControlPlaneInitializedCondition)
}

func addCluster(ctx context.Context, p *parts) error {
	return (&cluster.Reconciler{
		Client: p.mgr.GetClient(), APIReader: p.mgr.GetAPIReader(), ClusterCache: p.clusters,
		RemoteConnectionGracePeriod: connectionGrace, WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, p.mgr, p.opts.Controller())
}

func addMachine(ctx context.Context, p *parts) error {
	return (&machine.Reconciler{
		Client: p.mgr.GetClient(), APIReader: p.mgr.GetAPIReader(), ClusterCache: p.clusters, RuntimeClient: p.runtime,
		RemoteConditionsGracePeriod: conditionsGrace, WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, p.mgr, p.opts.Controller())
}

func addMachineSet(ctx context.Context, p *parts) error {
	return (&machineset.Reconciler{
		Client: p.patient, APIReader: p.mgr.GetAPIReader(), ClusterCache: p.clusters,
		PreflightChecks:  sets.New(clusterv1.MachineSetPreflightCheckAll),
		WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, p.mgr, p.opts.Controller())
}

func addMachineDeployment(ctx context.Context, p *parts) error {
	return (&machinedeployment.Reconciler{
		Client: p.patient, APIReader: p.mgr.GetAPIReader(), RuntimeClient: p.runtime, WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, p.mgr, p.opts.Controller())
}

func addMachineHealthCheck(ctx context.Context, p *parts) error {
	return (&machinehealthcheck.Reconciler{
		Client: p.mgr.GetClient(), ClusterCache: p.clusters, WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, p.mgr, p.opts.Controller())
}

func addClusterResourceSet(ctx context.Context, p *parts) error {
	if err := (&clusterresourceset.Reconciler{
		Client: p.mgr.GetClient(), ClusterCache: p.clusters, WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, p.mgr, p.opts.Controller(), p.metadata); err != nil {
		return err
	}
	return (&clusterresourcesetbinding.Reconciler{
		Client: p.mgr.GetClient(), WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, p.mgr, p.opts.Controller())
}

func addClusterClass(ctx context.Context, p *parts) error {
	return (&clusterclass.Reconciler{
		Client: p.mgr.GetClient(), RuntimeClient: p.runtime, WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, p.mgr, p.opts.Controller())
}

func addTopology(ctx context.Context, p *parts) error {
	if err := (&topologycluster.Reconciler{
		Client: p.patient, APIReader: p.mgr.GetAPIReader(), ClusterCache: p.clusters, RuntimeClient: p.runtime,
		WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, p.mgr, p.opts.Controller()); err != nil {
		return err
	}
	if err := (&topologymachinedeployment.Reconciler{
		Client: p.mgr.GetClient(), APIReader: p.mgr.GetAPIReader(), WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, p.mgr, p.opts.Controller()); err != nil {
		return err
	}
	return (&topologymachineset.Reconciler{
		Client: p.mgr.GetClient(), APIReader: p.mgr.GetAPIReader(), WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, p.mgr, p.opts.Controller())
}

func addKubeadmConfig(ctx context.Context, p *parts) error {
	return (&kubeadmconfig.Reconciler{
		Client: p.mgr.GetClient(), SecretCachingClient: p.secrets, APIReader: p.mgr.GetAPIReader(),
		ClusterCache: p.clusters, TokenTTL: kubeadmconfig.DefaultTokenTTL, WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, p.mgr, p.opts.Controller())
}
