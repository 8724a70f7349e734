package local

import (
	"net/netip"
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
	for _, other := range c.held {
		taken = append(taken, other)
	}
	addresses, parts := map[netip.Addr]bool{}, map[netip.Prefix]bool{}
	lastAddress, lastPods := c.lastAddress, c.lastPods[cluster]
	for _, other := range taken {
		addresses[other.address] = true
		// A new process goes on after the highest, which is the latest unless the range was gone through once.
		if !c.lastAddress.IsValid() && c.network.Contains(other.address) && lastAddress.Less(other.address) {
			lastAddress = other.address
		}
		if other.cluster == cluster {
			parts[other.pods] = true
			if !c.lastPods[cluster].IsValid() && lastPods.Addr().Less(other.pods.Addr()) {
				lastPods = other.pods
			}
		}
	}
	address, err := freeMachine(c.network, addresses, lastAddress)
	if err != nil {
		return claim{}, err
	}
	part, err := freePods(pods, parts, lastPods)
	if err != nil {
		return claim{}, err
	}
	mine := claim{cluster: cluster, address: address, pods: part}
	c.held[key], c.lastAddress, c.lastPods[cluster] = mine, address, part
	return mine, nil
}

// drop forgets what a machine had, once the machine is gone.
func (c *claims) drop(key client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.held, key)
}
