package provider

import (
	"maps"
	"net/netip"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// claims gives machines their addresses and parts of pod networks, each to one machine. What was given lies in the
// machines' records and in the objects; claims only remembers what may not be there yet.
type claims struct {
	network netip.Prefix

	mu   sync.Mutex
	held map[client.ObjectKey]claim
	// lastAddress and lastPods (by cluster) are the latest that were given.
	lastAddress netip.Addr
	lastPods    map[string]netip.Prefix
}

// claim is what one machine, or an endpoint, has, as far as it is known.
type claim struct {
	// holder is what has it, in words.
	holder  string
	cluster string
	address netip.Addr
	pods    netip.Prefix
	// pods6 is its part of the cluster's IPv6 pod network; not valid: there is none. v6Only: it has no IPv4 addresses.
	pods6  netip.Prefix
	v6Only bool
}

func newClaims(network netip.Prefix) *claims {
	return &claims{network: network, held: map[client.ObjectKey]claim{}, lastPods: map[string]netip.Prefix{}}
}

// request is what one machine asks for.
type request struct {
	key     client.ObjectKey
	cluster string
	// pods is the cluster's pod network.
	pods netip.Prefix
	// fixed are the addresses of which the machine wants one; none: any but those that are reserved for others.
	fixed    []netip.Addr
	reserved map[netip.Addr]bool
}

// take returns what the machine was given already, or something free in the environment's network and in the cluster's
// pod network. taken is what is in use as far as objects and records tell.
func (c *claims) take(r request, taken []claim) (claim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if mine, ok := c.held[r.key]; ok {
		return mine, nil
	}
	taken = slices.AppendSeq(taken, maps.Values(c.held))
	address, err := c.address(r, taken)
	if err != nil {
		return claim{}, err
	}
	parts, lastPods := c.pods(r.cluster, taken)
	part, err := freePods(r.pods, parts, lastPods)
	if err != nil {
		return claim{}, err
	}
	mine := claim{holder: machineNamed(r.key.Name), cluster: r.cluster, address: address, pods: part}
	c.held[r.key], c.lastPods[r.cluster] = mine, part
	if len(r.fixed) == 0 {
		c.lastAddress = address
	}
	return mine, nil
}

// address returns an address for a machine.
func (c *claims) address(r request, taken []claim) (netip.Addr, error) {
	if len(r.fixed) > 0 {
		return freeFixed(r.fixed, machineNamed(r.key.Name), taken)
	}
	used, last := c.addresses(taken)
	maps.Copy(used, r.reserved)
	return freeMachine(c.network, used, last)
}

// machineNamed is how a machine is told as the holder of an address.
func machineNamed(name string) string { return "machine " + name }

// addresses are those in use, and the last that was given. A new process goes on after the highest, which is the last unless the
// range was gone through once.
func (c *claims) addresses(taken []claim) (used map[netip.Addr]bool, last netip.Addr) {
	used, last = map[netip.Addr]bool{}, c.lastAddress
	for _, other := range taken {
		used[other.address] = true
		if !c.lastAddress.IsValid() && c.network.Contains(other.address) && last.Less(other.address) {
			last = other.address
		}
	}
	return used, last
}

// pods are the parts of a cluster's pod network that are in use, and the last that was given; see addresses.
func (c *claims) pods(cluster string, taken []claim) (used map[netip.Prefix]bool, last netip.Prefix) {
	used, last = map[netip.Prefix]bool{}, c.lastPods[cluster]
	for _, other := range taken {
		if other.cluster != cluster {
			continue
		}
		used[other.pods] = true
		if !c.lastPods[cluster].IsValid() && last.Addr().Less(other.pods.Addr()) {
			last = other.pods
		}
	}
	return used, last
}

// drop forgets what a machine had, once the machine is gone.
func (c *claims) drop(key client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, key)
}
