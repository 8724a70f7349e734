package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	etcdclusterv1alpha1 "github.com/quorate/quorate/api/etcdcluster/v1alpha1"
	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/kinds/etcdadm"
	"github.com/quorate/quorate/internal/local/balancer"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// backends are the machines of a cluster that could serve, by what they could serve. Each list is sorted by name.
type backends struct {
	// api are the machines of the control plane.
	api []balancer.Backend
	// etcd are the machines of etcd clusters. Their probe tells those that vote.
	etcd []balancer.Backend
	// hasEtcd: there are Machines of etcd clusters, whether theirs can serve or not.
	hasEtcd bool
}

// backends returns the machines that run and can be reached. Whether somebody answers on them is for the balancer to find out.
func (r *clusterReconciler) backends(ctx context.Context, lc *infrav1.LocalCluster, cluster *clusterv1.Cluster) (*backends, error) {
	of := []client.ListOption{client.InNamespace(lc.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}}
	owners, err := r.byInfrastructure(ctx, of...)
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of cluster %s: %w", cluster.Name, err)
	}
	var all infrav1.LocalMachineList
	if err := r.client.List(ctx, &all, of...); err != nil {
		return nil, fmt.Errorf("listing the LocalMachines of cluster %s: %w", cluster.Name, err)
	}
	keeper, err := r.etcdKeeper(ctx, cluster, owners)
	if err != nil {
		return nil, err
	}
	port := cmp.Or(cluster.Spec.ClusterNetwork.APIServerPort, defaultPort)
	found, told := &backends{}, map[string]bool{}
	stay := staying(all.Items, owners)
	for i := range all.Items {
		m := &all.Items[i]
		owner := owners[m.Name]
		told[m.Name] = owner != nil
		if owner == nil || !hasEndpoint(owner) {
			continue
		}
		if isOfOther(owner, keeper) {
			continue // API servers behind the same endpoint would write to both
		}
		found.hasEtcd = found.hasEtcd || isEtcd(owner)
		if stay && isLeaving(m, owner) {
			continue
		}
		s, err := r.serving(m, cluster)
		if err != nil {
			return nil, err
		}
		if s != nil {
			found.add(m.Name, owner, s.Addresses()[0], port, !m.DeletionTimestamp.IsZero() || !owner.DeletionTimestamp.IsZero())
		}
	}
	if err := r.keepUntold(found, told, client.ObjectKeyFromObject(lc), sandboxCluster(cluster)); err != nil {
		return nil, err
	}
	found.sort()
	return found, nil
}

// etcdKeeper returns the name of the EtcdCluster to whose members the Cluster's endpoint for etcd leads, where there are Machines of
// several; empty: to all. During a move the EtcdCluster may not be there yet.
func (r *clusterReconciler) etcdKeeper(
	ctx context.Context, cluster *clusterv1.Cluster, owners map[string]*clusterv1.Machine,
) (string, error) {
	names := map[string]bool{}
	for _, m := range owners {
		if isEtcd(m) {
			names[m.Labels[etcdclusterv1alpha1.MachineLabel]] = true
		}
	}
	if len(names) < 2 {
		return "", nil
	}
	var all etcdclusterv1alpha1.EtcdClusterList
	if err := r.client.List(ctx, &all, client.InNamespace(cluster.Namespace)); err != nil {
		return "", fmt.Errorf("listing the EtcdClusters of namespace %s: %w", cluster.Namespace, err)
	}
	if keeper := etcdadm.Keeper(all.Items, cluster.Name); keeper != nil {
		return keeper.Name, nil
	}
	return "", nil
}

// keepUntold keeps those that the endpoint of the API leads to and that run, although their LocalMachines and Machines were not seen yet:
// after a move that may come later than the LocalCluster. A cluster that keeps its own Clusters is reached through that endpoint: without
// them these would never be seen.
func (r *clusterReconciler) keepUntold(found *backends, told map[string]bool, endpoint client.ObjectKey, cluster string) error {
	for _, b := range r.endpoints.backends(endpoint) {
		if told[b.Name] {
			continue
		}
		_, ok, err := r.reachable(b.Name, cluster)
		if err != nil {
			return err
		}
		if ok {
			found.api = append(found.api, b)
		}
	}
	return nil
}

// isLeaving reports whether nothing holds a machine any more: its infrastructure is being deleted, so that its member of etcd was
// removed, or was given up by a recovery. If it still runs, it may serve another etcd than the machines that stay.
func isLeaving(m *infrav1.LocalMachine, owner *clusterv1.Machine) bool {
	return !m.DeletionTimestamp.IsZero() && !owner.DeletionTimestamp.IsZero()
}

// staying reports whether there is a control plane machine that is not being deleted.
func staying(all []infrav1.LocalMachine, owners map[string]*clusterv1.Machine) bool {
	return slices.ContainsFunc(all, func(m infrav1.LocalMachine) bool {
		owner := owners[m.Name]
		return owner != nil && util.IsControlPlaneMachine(owner) && m.DeletionTimestamp.IsZero() && owner.DeletionTimestamp.IsZero()
	})
}

// isOfOther reports whether a machine is a member of another etcd than the keeper's; keeper is empty where there is one only.
func isOfOther(m *clusterv1.Machine, keeper string) bool {
	return isEtcd(m) && keeper != "" && m.Labels[etcdclusterv1alpha1.MachineLabel] != keeper
}

// hasEndpoint reports whether an endpoint leads to a Machine: that of the API servers, or that of etcd.
func hasEndpoint(m *clusterv1.Machine) bool { return isEtcd(m) || util.IsControlPlaneMachine(m) }

// sort orders the machines by name, so that the same machines are the same configuration.
func (b *backends) sort() {
	for _, list := range [][]balancer.Backend{b.api, b.etcd} {
		slices.SortFunc(list, func(a, b balancer.Backend) int { return cmp.Compare(a.Name, b.Name) })
	}
}

// add adds a machine that can be reached.
func (b *backends) add(name string, owner *clusterv1.Machine, address netip.Addr, port int32, draining bool) {
	one := balancer.Backend{Name: name, Draining: draining}
	if !isEtcd(owner) {
		one.Address = netip.AddrPortFrom(address, uint16(port)).String()
		b.api = append(b.api, one)
		return
	}
	one.Address = netip.AddrPortFrom(address, etcdclusterv1alpha1.ClientPort).String()
	one.Probe = fmt.Sprintf("http://%s/readyz", netip.AddrPortFrom(address, etcdclusterv1alpha1.MetricsPort))
	b.etcd = append(b.etcd, one)
}

// isEtcd reports whether a Machine is a member of an etcd cluster of its own, and runs nothing else.
func isEtcd(m *clusterv1.Machine) bool {
	_, labelled := m.Labels[etcdclusterv1alpha1.MachineLabel]
	return labelled
}

// byInfrastructure lists Machines by the name of the object of their infrastructure.
func (r *clusterReconciler) byInfrastructure(ctx context.Context, of ...client.ListOption) (map[string]*clusterv1.Machine, error) {
	var all clusterv1.MachineList
	if err := r.client.List(ctx, &all, of...); err != nil {
		return nil, err
	}
	machines := map[string]*clusterv1.Machine{}
	for i := range all.Items {
		machines[all.Items[i].Spec.InfrastructureRef.Name] = &all.Items[i]
	}
	return machines, nil
}

// serving returns the machine of a LocalMachine; nil unless it runs, can be reached, and was made for this LocalMachine.
func (r *clusterReconciler) serving(m *infrav1.LocalMachine, cluster *clusterv1.Cluster) (*sandbox.Status, error) {
	s, ok, err := r.reachable(m.Name, sandboxCluster(cluster))
	if err != nil || !ok || !owns(m, s) {
		return nil, err
	}
	return s, nil
}

// reachable returns a machine; false unless the machine is of the cluster, runs and has its link.
func (r *clusterReconciler) reachable(name, cluster string) (*sandbox.Status, bool, error) {
	s, err := r.machines.Get(name)
	if errors.Is(err, sandbox.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("looking at machine %s: %w", name, err)
	}
	return &s, s.Cluster == cluster && s.State == sandbox.Running && !s.Partitioned, nil
}

// sandboxCluster is what machines on this host carry as their cluster's name: names of machines are unique among all
// namespaces, so this tells whose a machine is.
func sandboxCluster(c *clusterv1.Cluster) string { return c.Namespace + "/" + c.Name }
