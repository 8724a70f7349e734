package provider

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// defaultPort is where API servers and endpoints listen unless the object names another.
const defaultPort = 6443

// namedEndpoint is the endpoint that a LocalCluster names, or else its Cluster.
func namedEndpoint(lc *infrav1.LocalCluster, cluster *clusterv1.Cluster) infrav1.APIEndpoint {
	e := lc.Spec.ControlPlaneEndpoint
	if e.Host == "" {
		e.Host = cluster.Spec.ControlPlaneEndpoint.Host
		e.Port = cmp.Or(e.Port, cluster.Spec.ControlPlaneEndpoint.Port)
	}
	e.Port = cmp.Or(e.Port, defaultPort)
	return e
}

// choose returns the endpoint of a LocalCluster: the user's, given there or in the Cluster, or a free address.
func (r *clusterReconciler) choose(
	ctx context.Context, lc *infrav1.LocalCluster, cluster *clusterv1.Cluster,
) (infrav1.APIEndpoint, *problem, error) {
	chosen := namedEndpoint(lc, cluster)
	if ptr.Deref(lc.Status.Initialization.Provisioned, false) && chosen.Host != "" {
		return chosen, nil, nil
	}
	var all infrav1.LocalClusterList
	if err := r.client.List(ctx, &all); err != nil {
		return chosen, nil, fmt.Errorf("listing LocalClusters: %w", err)
	}
	taken, err := r.machineAddresses()
	if err != nil {
		return chosen, nil, err
	}
	networks, err := podNetwork(cluster.Spec.ClusterNetwork.Pods.CIDRBlocks)
	if err != nil {
		return chosen, &problem{infrav1.NoAddressReason, err.Error()}, nil
	}
	if chosen.Host == "" {
		address, err := r.allocate(client.ObjectKeyFromObject(lc), all.Items, taken)
		if err != nil {
			return chosen, &problem{infrav1.NoAddressReason, err.Error()}, nil
		}
		if networks.v6Only() {
			address = sandbox.Address6(r.network, address)
		}
		chosen.Host = address.String()
		return chosen, nil, nil
	}
	if p := unusable(chosen.Host, networks); p != nil {
		return chosen, p, nil
	}
	return chosen, r.objection(lc, chosen, all.Items, taken), nil
}

// machineAddresses are the addresses of all machines of the environment, with their names.
func (r *clusterReconciler) machineAddresses() (map[netip.Addr]string, error) {
	all, err := r.machines.List()
	if err != nil {
		return nil, fmt.Errorf("listing machines: %w", err)
	}
	taken := map[netip.Addr]string{}
	for _, m := range all {
		for _, a := range append(m.Addresses(), m.Address) {
			taken[a] = m.Name
		}
	}
	return taken, nil
}

// allocate takes a free address for a LocalCluster.
func (r *clusterReconciler) allocate(key client.ObjectKey, all []infrav1.LocalCluster, taken map[netip.Addr]string) (netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.given[key]; ok {
		return a, nil
	}
	used := r.usedAddresses(all, taken)
	// An IPv6 endpoint has the number of an IPv4 address, which no other then has.
	for n := firstEndpoint; n <= lastEndpoint; n++ {
		if a, ok := at(r.network, n); ok && used[sandbox.Address6(r.network, a)] {
			used[a] = true
		}
	}
	a, err := freeEndpoint(r.network, used)
	if err == nil {
		r.given[key] = a
	}
	return a, err
}

// usedAddresses are the addresses of machines and endpoints, those included that were given and are not written yet.
func (r *clusterReconciler) usedAddresses(all []infrav1.LocalCluster, taken map[netip.Addr]string) map[netip.Addr]bool {
	used := map[netip.Addr]bool{}
	for a := range taken {
		used[a] = true
	}
	for _, a := range r.given {
		used[a] = true
	}
	for _, c := range all {
		if a, err := netip.ParseAddr(c.Spec.ControlPlaneEndpoint.Host); err == nil {
			used[a] = true
		}
	}
	return used
}

// unusable is why the host of an endpoint that somebody asked for is none that machines with such pod networks reach; nil: it is one.
func unusable(host string, networks podNetworks) *problem {
	address, err := netip.ParseAddr(host)
	families := "IPv4"
	switch {
	case networks.v6Only():
		families = "IPv6"
	case networks.v6.IsValid():
		families = "IPv4 or IPv6"
	}
	if err == nil && isUnicast(address) && networks.have(address) {
		return nil
	}
	return &problem{infrav1.EndpointInvalidReason, fmt.Sprintf(
		"spec.controlPlaneEndpoint.host is %q, want an %s address that machines can reach, or nothing for a free one", host, families)}
}

// objection is why an endpoint with a usable host, which somebody asked for, cannot be had; nil: it can.
func (r *clusterReconciler) objection(
	lc *infrav1.LocalCluster, want infrav1.APIEndpoint, all []infrav1.LocalCluster, taken map[netip.Addr]string,
) *problem {
	address := netip.MustParseAddr(want.Host)
	if slices.Contains(ownAddresses(r.network), address) {
		return &problem{infrav1.EndpointInvalidReason, fmt.Sprintf(
			"spec.controlPlaneEndpoint.host is %s, which the environment's network %s needs for itself; leave it out for a free address", want.Host,
			r.network)}
	}
	if name, ok := taken[address]; ok {
		return &problem{infrav1.EndpointInUseReason, fmt.Sprintf("address %s is in use by machine %s", want.Host, name)}
	}
	for i := range all {
		if other := &all[i]; other.Spec.ControlPlaneEndpoint == want && before(other, lc) {
			return &problem{infrav1.EndpointInUseReason, fmt.Sprintf("%s is the endpoint of LocalCluster %s in namespace %s", listen(want),
				other.Name, other.Namespace)}
		}
	}
	return nil
}

// isUnicast reports whether an address can be one of a host's addresses that others reach.
func isUnicast(a netip.Addr) bool {
	return !a.Is4In6() && a.Zone() == "" && !a.IsLinkLocalUnicast() && !a.IsLoopback() && !a.IsUnspecified() && !a.IsMulticast()
}

// ownAddresses are those that the environment's network needs for itself: its base, the bridge's and the broadcast address.
func ownAddresses(network netip.Prefix) []netip.Addr {
	bridge, _ := at(network, 1)
	broadcast, _ := at(network, 1<<(32-network.Bits())-1)
	return []netip.Addr{network.Masked().Addr(), bridge, broadcast, sandbox.Network6(network).Addr(), sandbox.Address6(network, bridge)}
}

// before reports whether a LocalCluster has the better right to an endpoint that another wants too: who serves it, then who is older.
func before(a, b *infrav1.LocalCluster) bool {
	if a.Namespace == b.Namespace && a.Name == b.Name {
		return false
	}
	if ptr.Deref(a.Status.Initialization.Provisioned, false) {
		return true
	}
	return cmp.Or(
		a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name)) < 0
}
