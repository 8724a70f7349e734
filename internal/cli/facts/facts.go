// Package facts reads what can be known of the clusters of one environment,
// from the management plane, from the clusters themselves and from the host,
// and turns it into the types of package report. It changes nothing.
package facts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	capikubeconfig "sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cluster/kubeconfig"
	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// Objects are the management plane's objects of one cluster.
type Objects struct {
	Cluster *clusterv1.Cluster
	// ControlPlane is nil when there is none, or one of a kind that is not known here.
	ControlPlane *Group
	// EtcdClusters are those on machines of their own, sorted by name.
	EtcdClusters []*Group
	// Deployments and Machines are sorted by name, Machines by age first.
	Deployments []clusterv1.MachineDeployment
	Machines    []clusterv1.Machine
}

// ErrNoCluster says that there is no cluster of that name.
var ErrNoCluster = errors.New("no such cluster")

// List returns all clusters, sorted by namespace and name.
func List(ctx context.Context, c client.Reader) ([]client.ObjectKey, error) {
	var list clusterv1.ClusterList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	keys := make([]client.ObjectKey, 0, len(list.Items))
	for i := range list.Items {
		keys = append(keys, client.ObjectKeyFromObject(&list.Items[i]))
	}
	slices.SortFunc(keys, func(a, b client.ObjectKey) int { return strings.Compare(a.String(), b.String()) })
	return keys, nil
}

// OfControlPlane returns the clusters whose control plane has a name: NAME, or NAMESPACE/NAME.
func OfControlPlane(ctx context.Context, c client.Reader, name string) ([]client.ObjectKey, error) {
	var list clusterv1.ClusterList
	if err := c.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing clusters: %w", err)
	}
	var keys []client.ObjectKey
	for i := range list.Items {
		if o := &list.Items[i]; o.Spec.ControlPlaneRef.Name == name || o.Namespace+"/"+o.Spec.ControlPlaneRef.Name == name {
			keys = append(keys, client.ObjectKeyFromObject(o))
		}
	}
	return keys, nil
}

// Choose finds the cluster that a name means: NAME, or NAMESPACE/NAME where
// two have the same; without a name the only one there is. The error lists
// what is valid.
func Choose(name string, keys []client.ObjectKey) (client.ObjectKey, error) {
	found := slices.DeleteFunc(slices.Clone(keys), func(k client.ObjectKey) bool {
		return name != "" && name != k.Name && name != k.String()
	})
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(keys) == 0:
		return client.ObjectKey{}, fmt.Errorf("%w: there is none at all; `quorate up` makes one", ErrNoCluster)
	case len(found) == 0:
		return client.ObjectKey{}, fmt.Errorf("%w: %q; there is %s", ErrNoCluster, name, Names(keys))
	case name == "":
		return client.ObjectKey{}, fmt.Errorf("expected NAME, because there are %d clusters: must be one of %s", len(keys), Names(keys))
	}
	return client.ObjectKey{}, fmt.Errorf("%d clusters have the name %q: must be NAMESPACE/NAME (%s)", len(found), name, Names(found))
}

// Names lists clusters, with their namespaces where names alone would not tell them apart.
func Names(keys []client.ObjectKey) string {
	times := map[string]int{}
	for _, k := range keys {
		times[k.Name]++
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
		if times[k.Name] > 1 {
			names[i] = k.String()
		}
	}
	return strings.Join(names, ", ")
}

// Read reads a cluster's objects. The error is ErrNoCluster when there is none of that name.
func Read(ctx context.Context, c client.Reader, key client.ObjectKey) (*Objects, error) {
	o, err := readGroups(ctx, c, key)
	if err != nil {
		return nil, err
	}
	of := []client.ListOption{client.InNamespace(key.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: key.Name}}
	var deployments clusterv1.MachineDeploymentList
	if err := c.List(ctx, &deployments, of...); err != nil {
		return nil, fmt.Errorf("listing the MachineDeployments of cluster %s: %w", key, err)
	}
	var machines clusterv1.MachineList
	if err := c.List(ctx, &machines, of...); err != nil {
		return nil, fmt.Errorf("listing the Machines of cluster %s: %w", key, err)
	}
	o.Deployments, o.Machines = deployments.Items, machines.Items
	o.sort()
	return o, nil
}

// readGroups reads a cluster, its control plane and its etcd clusters alone.
func readGroups(ctx context.Context, c client.Reader, key client.ObjectKey) (*Objects, error) {
	o := &Objects{Cluster: &clusterv1.Cluster{}}
	if err := c.Get(ctx, key, o.Cluster); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("%w: %s", ErrNoCluster, key)
		}
		return nil, fmt.Errorf("reading cluster %s: %w", key, err)
	}
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return o.readControlPlane(ctx, c) })
	both.Go(func() error { return o.readEtcdClusters(ctx, c) })
	if err := both.Wait(); err != nil {
		return nil, err
	}
	o.sort()
	return o, nil
}

// Sandboxes returns the host's machines by name.
func Sandboxes(h *sandbox.Host) (map[string]sandbox.Status, error) {
	list, err := h.List()
	if err != nil {
		return nil, fmt.Errorf("listing the machines of this host: %w", err)
	}
	byName := make(map[string]sandbox.Status, len(list))
	for _, s := range list {
		byName[s.Name] = s
	}
	return byName, nil
}

// ErrNoKubeconfig says that a cluster has no kubeconfig yet.
var ErrNoKubeconfig = errors.New("there is no kubeconfig yet")

// Kubeconfig returns a cluster's kubeconfig. It is a secret. One that would make its reader run
// commands or read files is an error: kubectl obeys such fields, as root in a local environment.
func Kubeconfig(ctx context.Context, c client.Reader, key client.ObjectKey) ([]byte, error) {
	raw, err := capikubeconfig.FromSecret(ctx, c, key)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("cluster %s: %w", key, ErrNoKubeconfig)
	case err != nil:
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", key, err)
	}
	if _, err := kubeconfig.Load(raw); err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of cluster %s: %w", key, err)
	}
	return raw, nil
}

// lookTimeout is how long a cluster may take to answer. The caller looks again.
const lookTimeout = 3 * time.Second

// Look reads a cluster itself, once. What keeps it from answering is in the view, not in the error.
func Look(ctx context.Context, c client.Reader, key client.ObjectKey) (workload.View, error) {
	raw, err := Kubeconfig(ctx, c, key)
	if errors.Is(err, ErrNoKubeconfig) {
		return workload.View{Why: ErrNoKubeconfig.Error()}, nil
	}
	if err != nil {
		return workload.View{}, err
	}
	config, err := kubeconfig.RESTConfig(raw) // which Once bounds
	if err != nil {
		return workload.View{}, fmt.Errorf("reading the kubeconfig of cluster %s: %w", key, err)
	}
	short, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	view, err := workload.Once(short, config)
	if err != nil {
		return workload.View{Why: err.Error()}, nil
	}
	return view, nil
}

// See reads everything about a cluster but what the next decision depends on. Without a host its machines are not this host's.
// A cluster that does not answer is no error; no cluster is ErrNoCluster.
func See(ctx context.Context, c client.Reader, h *sandbox.Host, key client.ObjectKey) (Seen, error) {
	objects, err := Read(ctx, c, key)
	if err != nil {
		return Seen{}, err
	}
	var boxes map[string]sandbox.Status
	if h != nil {
		if boxes, err = Sandboxes(h); err != nil {
			return Seen{}, err
		}
	}
	view, err := Look(ctx, c, key)
	if err != nil {
		return Seen{}, err
	}
	return Seen{Objects: objects, View: view, Sandboxes: boxes}, nil
}
