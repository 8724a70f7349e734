package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/balancer"
	"github.com/quorate/quorate/internal/sandbox"
)

// backends are the machines of the control plane that could serve: they run and can be reached. Whether an API server answers on
// them is for the balancer to find out. Sorted by name.
func (r *clusterReconciler) backends(ctx context.Context, lc *infrav1.LocalCluster, cluster *clusterv1.Cluster) ([]balancer.Backend, error) {
	of := []client.ListOption{client.InNamespace(lc.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}}
	var owners clusterv1.MachineList
	if err := r.client.List(ctx, &owners, of...); err != nil {
		return nil, fmt.Errorf("listing the Machines of cluster %s: %w", cluster.Name, err)
	}
	var all infrav1.LocalMachineList
	if err := r.client.List(ctx, &all, of...); err != nil {
		return nil, fmt.Errorf("listing the LocalMachines of cluster %s: %w", cluster.Name, err)
	}
	byInfrastructure := map[string]*clusterv1.Machine{}
	for i := range owners.Items {
		byInfrastructure[owners.Items[i].Spec.InfrastructureRef.Name] = &owners.Items[i]
	}
	port := cmp.Or(cluster.Spec.ClusterNetwork.APIServerPort, defaultPort)
	var backends []balancer.Backend
	for i := range all.Items {
		m := &all.Items[i]
		owner := byInfrastructure[m.Name]
		if owner == nil || !util.IsControlPlaneMachine(owner) {
			continue
		}
		s, err := r.machines.Get(m.Name)
		if errors.Is(err, sandbox.ErrNotFound) || err == nil && (s.Cluster != sandboxCluster(cluster) || s.State != sandbox.Running || s.Partitioned) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking at machine %s: %w", m.Name, err)
		}
		backends = append(backends, balancer.Backend{
			Name:     m.Name,
			Address:  fmt.Sprintf("%s:%d", s.Address, port),
			Draining: !m.DeletionTimestamp.IsZero() || !owner.DeletionTimestamp.IsZero(),
		})
	}
	slices.SortFunc(backends, func(a, b balancer.Backend) int { return cmp.Compare(a.Name, b.Name) })
	return backends, nil
}

// sandboxCluster is what machines on this host carry as their cluster's name: names of machines are unique among all
// namespaces, so this tells whose a machine is.
func sandboxCluster(c *clusterv1.Cluster) string { return c.Namespace + "/" + c.Name }
