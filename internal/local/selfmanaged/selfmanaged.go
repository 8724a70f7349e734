// Package selfmanaged makes a cluster of local machines its own management cluster, by clusterctl, and gives its Clusters back to the
// host's management plane. It knows the order of the steps, each of which may be repeated: what an interrupted run left undone, the next
// one finds out and does. It does not know how providers are built, nor how a daemon makes machines.
package selfmanaged

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/kubeconfig"
	"github.com/quorate/quorate/internal/local/artifacts"
	"github.com/quorate/quorate/internal/local/embed"
	"github.com/quorate/quorate/internal/manager"
)

// Options say which cluster, and what with.
type Options struct {
	// Daemon starts the daemon of the environment, whose State it names.
	Daemon embed.Options
	// Cluster is the cluster that becomes the management cluster, or gives its Clusters back.
	Cluster client.ObjectKey
	// Manager is the file of quorate-manager. Only Take needs it.
	Manager string
	// Stage runs one step under a name; say hears what it is at, and the step's text is its summary.
	Stage func(name string, step func(say func(string)) (string, error)) error
}

// run is what the steps of one run share.
type run struct {
	Options
	environment embed.Environment
	providers   *artifacts.Providers
	// images are the files of all images that the providers' pods need, and image is the name of the manager's.
	images []string
	image  string
	// plane and cluster are how the management plane and the cluster are reached.
	plane, cluster access
}

// access is a management cluster, by its kubeconfig.
type access struct {
	file   string
	client client.Client
}

// Take makes the cluster its own management cluster, and that of all other Clusters of the environment. No machine is replaced.
func Take(ctx context.Context, o Options) error {
	r, err := newRun(ctx, o)
	if err != nil {
		return err
	}
	defer r.end()
	for _, s := range []struct {
		name string
		do   func(context.Context, func(string)) (string, error)
	}{
		{"providers", r.ensure},
		{"images", r.bringImages},
		{"clusterctl init", r.init},
		{"machines", r.follow},
		{"clusterctl move", r.move},
	} {
		if err := o.Stage(s.name, func(say func(string)) (string, error) { return s.do(ctx, say) }); err != nil {
			return err
		}
	}
	return nil
}

// GiveBack moves all Clusters back to the management plane of the host. The providers stay in the cluster, without work.
func GiveBack(ctx context.Context, o Options) error {
	r, err := newRun(ctx, o)
	if err != nil {
		return err
	}
	defer r.end()
	for _, s := range []struct {
		name string
		do   func(context.Context, func(string)) (string, error)
	}{
		{"clusterctl", r.ensure},
		{"machines", r.unfollow},
		{"clusterctl move", r.moveBack},
	} {
		if err := o.Stage(s.name, func(say func(string)) (string, error) { return s.do(ctx, say) }); err != nil {
			return err
		}
	}
	return nil
}

// Keeper returns the cluster that keeps the Clusters of an environment, also while that is only begun; false: its management plane does.
func Keeper(state string) (embed.ManagementCluster, bool) {
	e, err := embed.Load(state)
	if err != nil || e.ManagementCluster == nil {
		return embed.ManagementCluster{}, false
	}
	return *e.ManagementCluster, true
}

// newRun reaches both management clusters.
func newRun(ctx context.Context, o Options) (*run, error) {
	e, err := embed.Load(o.Daemon.State)
	if err != nil {
		return nil, err
	}
	if kept := e.ManagementCluster; kept != nil && kept.Key() != o.Cluster {
		return nil, fmt.Errorf("cluster %s is the management cluster of this environment: `quorate up --name %s --self-managed=false` gives "+
			"its Clusters back first", kept, kept.Name)
	}
	r := &run{Options: o, environment: e}
	if r.plane, err = reach(embed.PlaneKubeconfigPath(o.Daemon.State)); err != nil {
		return nil, err
	}
	data, err := r.kubeconfig(ctx)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "quorate-self-managed-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for the kubeconfig: %w", err)
	}
	file := filepath.Join(folder, "kubeconfig")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("writing the kubeconfig of cluster %s: %w", o.Cluster, err), os.RemoveAll(folder))
	}
	if r.cluster, err = reach(file); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	return r, nil
}

// end removes the copy of the kubeconfig.
func (r *run) end() { _ = os.RemoveAll(filepath.Dir(r.cluster.file)) }

// kubeconfig is the administrator's of the cluster, which is where its Cluster is.
func (r *run) kubeconfig(ctx context.Context) ([]byte, error) {
	keeper, err := reach(embed.KubeconfigPath(r.Daemon.State))
	if err != nil {
		return nil, err
	}
	found := &corev1.Secret{}
	name := client.ObjectKey{Namespace: r.Cluster.Namespace, Name: secret.Name(r.Cluster.Name, secret.Kubeconfig)}
	if err := keeper.client.Get(ctx, name, found); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", r.Cluster, err)
	}
	return found.Data[secret.KubeconfigDataName], nil
}

// reach returns what a kubeconfig leads to.
func reach(file string) (access, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return access{}, fmt.Errorf("reading a kubeconfig: %w", err)
	}
	config, err := kubeconfig.RESTConfig(data)
	if err != nil {
		return access{}, fmt.Errorf("reading %s: %w", file, err)
	}
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: manager.Scheme()})
	if err != nil {
		return access{}, fmt.Errorf("connecting to %s: %w", config.Host, err)
	}
	return access{file: file, client: c}, nil
}

// namespaces are those that have Clusters.
func (a access) namespaces(ctx context.Context) ([]string, error) {
	var all clusterv1.ClusterList
	if err := a.client.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("listing Clusters: %w", err)
	}
	var names []string
	seen := map[string]bool{}
	for _, c := range all.Items {
		if !seen[c.Namespace] {
			seen[c.Namespace] = true
			names = append(names, c.Namespace)
		}
	}
	return names, nil
}
