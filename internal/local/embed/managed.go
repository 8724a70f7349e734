package embed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	runnable "sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quorate/quorate/internal/cluster/kubeconfig"
	"github.com/quorate/quorate/internal/local/provider"
	"github.com/quorate/quorate/internal/manager/host"
	"github.com/quorate/quorate/internal/program/atomicfile"
	"github.com/quorate/quorate/internal/program/process"
)

// ManagementCluster is a cluster of the environment that keeps Clusters itself, its own among them. The daemon makes machines for the
// objects that are there.
type ManagementCluster struct {
	// Namespace and Name are those of its Cluster.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Machines: machines are made for the LocalMachines in it, not for those in the management plane.
	Machines bool `json:"machines"`
	// Clusters: all Clusters were moved to it, and commands ask it.
	Clusters bool `json:"clusters"`
	// Images are files, in the format of `docker save`, that its machines have beside those of their version.
	Images []string `json:"images,omitempty"`
}

// Key is the namespace and name of its Cluster.
func (m ManagementCluster) Key() client.ObjectKey {
	return client.ObjectKey{Namespace: m.Namespace, Name: m.Name}
}

// String is namespace/name.
func (m ManagementCluster) String() string { return m.Key().String() }

// Files of a management cluster in the folder of the management plane.
const (
	clusterKubeconfig  = "cluster.kubeconfig"
	providerKubeconfig = "cluster-provider.kubeconfig"
	bootFile           = "boot"
)

// SetManagementCluster records which cluster keeps the environment's Clusters, nil for the management plane, and how it is reached: by its
// administrator and by the provider of machines; both empty: as before. The daemon heeds it from its next start on.
func SetManagementCluster(state string, m *ManagementCluster, admin, provider []byte) error {
	e, err := Load(state)
	if err != nil {
		return err
	}
	for file, data := range map[string][]byte{clusterKubeconfig: admin, providerKubeconfig: provider} {
		if len(data) == 0 {
			continue
		}
		if err := atomicfile.Write(filepath.Join(state, "management", file), data, 0o600); err != nil {
			return fmt.Errorf("writing the kubeconfig of the management cluster: %w", err)
		}
	}
	e.ManagementCluster = m
	return e.Save(state)
}

// madeFor says whose LocalMachines the daemon makes machines for: the name of a management cluster, or nothing for the management plane.
func (e Environment) madeFor() string {
	if e.ManagementCluster == nil || !e.ManagementCluster.Machines {
		return ""
	}
	return e.ManagementCluster.String()
}

// followLimit is how long the controllers of machines may take to end.
const followLimit = 5 * time.Second

// again is after how long the controllers of machines are started again when they could not run.
const again = 5 * time.Second

// follow runs the controllers of machines for the objects of the management cluster until ctx ends. While that does not answer, it is asked
// again.
func (d *daemon) follow(ctx context.Context, e Environment, o provider.Options) error {
	log := d.log.WithValues("managementCluster", e.madeFor())
	if err := d.revive(ctx, e, o); err != nil {
		log.Error(err, "not all of the management cluster runs again")
	}
	for ctx.Err() == nil {
		err := d.followOnce(ctx, o)
		if ctx.Err() != nil {
			break
		}
		log.Error(err, "the controllers of machines ended; they are started again", "after", again.String())
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
	return nil
}

func (d *daemon) followOnce(ctx context.Context, o provider.Options) error {
	t, err := newToken(d.state)
	if err != nil {
		return err
	}
	expires, err := t.renew(ctx)
	if err != nil {
		return err
	}
	cfg := t.config()
	limit := followLimit
	settings := host.Options{Local: &o}
	settings.Providers = []string{} // Quorate's own controllers run in the cluster
	mgr, err := host.New(cfg, ctrl.Options{
		Logger: d.log, Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: &limit,
		// They are started again in the same process, under the same names.
		Controller: config.Controller{SkipNameValidation: new(true)},
	}, settings)
	if err != nil {
		return err
	}
	o.Workload = func(ctx context.Context, cluster client.ObjectKey) (client.Client, error) {
		return workload(ctx, mgr.GetAPIReader(), cluster)
	}
	if err := host.Setup(ctx, mgr, settings); err != nil {
		return err
	}
	err = mgr.Add(runnable.RunnableFunc(func(ctx context.Context) error {
		t.keep(ctx, expires, func(err error) {
			d.log.Error(err, "the token is not renewed yet; trying again", "after", again.String())
		})
		return nil
	}))
	if err != nil {
		return fmt.Errorf("adding what renews the token: %w", err)
	}
	d.log.Info("machines are made for a management cluster", "server", cfg.Host)
	return mgr.Start(ctx)
}

// bootLimit is how long a management cluster may take to answer: its machines may have to be started first.
const bootLimit = 5 * time.Minute

// awaitCluster waits until the management cluster answers, where one keeps the Clusters. Nothing else of the environment can be asked
// before.
func awaitCluster(ctx context.Context, state string, progress func(string)) error {
	e, err := Load(state)
	if err != nil || e.ManagementCluster == nil || !e.ManagementCluster.Clusters {
		return err
	}
	cfg, err := RESTConfig(state)
	if err != nil {
		return err
	}
	cfg.Timeout = 5 * time.Second
	c, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return fmt.Errorf("creating a client of the management cluster: %w", err)
	}
	progress("waiting for the management cluster " + e.ManagementCluster.String())
	var last error
	err = wait.PollUntilContextTimeout(ctx, poll, bootLimit, true, func(ctx context.Context) (bool, error) {
		_, last = c.ServerResourcesForGroupVersion(clusterv1.GroupVersion.String())
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the management cluster %s: %w", e.ManagementCluster, errors.Join(err, last))
	}
	return nil
}

// workload returns a client of a cluster, made from its kubeconfig.
func workload(ctx context.Context, c client.Reader, cluster client.ObjectKey) (client.Client, error) {
	found := &corev1.Secret{}
	name := client.ObjectKey{Namespace: cluster.Namespace, Name: secret.Name(cluster.Name, secret.Kubeconfig)}
	if err := c.Get(ctx, name, found); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", cluster, err)
	}
	cfg, err := kubeconfig.Managed(found.Data[secret.KubeconfigDataName])
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", cluster, err)
	}
	return client.New(cfg, client.Options{Scheme: host.Scheme()})
}

// revive brings up again what the management cluster is reached by, and its machines if the host was booted since it was last here.
func (d *daemon) revive(ctx context.Context, e Environment, o provider.Options) error {
	boot, err := process.Boot()
	if err != nil {
		return fmt.Errorf("asking for the host's boot: %w", err)
	}
	file := filepath.Join(d.state, "management", bootFile)
	last, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading when the daemon was last here: %w", err)
	}
	if err := provider.Revive(ctx, o, e.ManagementCluster.Key(), err == nil && string(last) != boot); err != nil {
		return err
	}
	return atomicfile.Write(file, []byte(boot), 0o600)
}
