package local

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

// claim is what one machine has, as far as it is known.
type claim struct {
	cluster string
	address netip.Addr
	pods    netip.Prefix
}

func newClaims(network netip.Prefix) *claims {
	return &claims{network: network, held: map[client.ObjectKey]claim{}, lastPods: map[string]netip.Prefix{}}
}

// take returns what the machine was given already, or something free in the environment's network and in the cluster's
// pod network. taken is what is in use as far as objects and records tell.
func (c *claims) take(key client.ObjectKey, cluster string, pods netip.Prefix, taken []claim) (claim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if mine, ok := c.held[key]; ok {
		return mine, nil
	}
	taken = slices.AppendSeq(taken, maps.Values(c.held))
	addresses, lastAddress := c.addresses(taken)
	address, err := freeMachine(c.network, addresses, lastAddress)
	if err != nil {
		return claim{}, err
	}
	parts, lastPods := c.pods(cluster, taken)
	part, err := freePods(pods, parts, lastPods)
	if err != nil {
		return claim{}, err
	}
	mine := claim{cluster: cluster, address: address, pods: part}
	c.held[key], c.lastAddress, c.lastPods[cluster] = mine, address, part
	return mine, nil
}

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
