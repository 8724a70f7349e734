package embed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/quorate/quorate/internal/atomicfile"
	"github.com/quorate/quorate/internal/local"
	"github.com/quorate/quorate/internal/manager"
)

// ManagementCluster is a cluster of the environment that keeps Clusters itself, its own among them. The daemon makes machines for the objects that are there.
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

// SetManagementCluster records which cluster keeps the environment's Clusters, nil for the management plane, and how it is reached: by its administrator and by the
// provider of machines; both empty: as before. The daemon heeds it from its next start on.
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

// follow runs the controllers of machines for the objects of the management cluster until ctx ends. While that does not answer, it is asked again.
func (d *daemon) follow(ctx context.Context, e Environment, o local.Options) error {
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

func (d *daemon) followOnce(ctx context.Context, o local.Options) error {
	cfg, err := restConfig(filepath.Join(d.state, "management", providerKubeconfig))
	if err != nil {
		return fmt.Errorf("reading the kubeconfig of the management cluster: %w", err)
	}
	limit := followLimit
	options := manager.Options{Local: &o, Providers: []string{}}
	mgr, err := manager.New(cfg, ctrl.Options{
		Logger: d.log, Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: &limit,
		// They are started again in the same process, under the same names.
		Controller: config.Controller{SkipNameValidation: new(true)},
	}, options)
	if err != nil {
		return err
	}
	if err := manager.Setup(ctx, mgr, options); err != nil {
		return err
	}
	d.log.Info("machines are made for a management cluster", "server", cfg.Host)
	return mgr.Start(ctx)
}

// revive brings up again what the management cluster is reached by, and its machines if the host was booted since it was last here.
func (d *daemon) revive(ctx context.Context, e Environment, o local.Options) error {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("asking for the host's boot: %w", err)
	}
	file := filepath.Join(d.state, "management", bootFile)
	last, err := os.ReadFile(file)
	booted := err == nil && strings.TrimSpace(string(last)) != strings.TrimSpace(string(boot))
	return errors.Join(local.Revive(ctx, o, e.ManagementCluster.Key(), booted), atomicfile.Write(file, boot, 0o600))
}
