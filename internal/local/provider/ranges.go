package provider

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// The places of addresses in the environment's network, counted from its first. The bridge has number 1.
const (
	firstEndpoint = 10
	lastEndpoint  = 250
	firstMachine  = 257
)

// at is the address with a number in a network; false when the network is smaller.
func at(network netip.Prefix, number int) (netip.Addr, bool) {
	base := network.Masked().Addr().As4()
	n := uint64(binary.BigEndian.Uint32(base[:])) + uint64(number)
	if n > 1<<32-1 {
		return netip.Addr{}, false
	}
	binary.BigEndian.PutUint32(base[:], uint32(n))
	a := netip.AddrFrom4(base)
	return a, network.Contains(a)
}

// number is the opposite of at.
func number(network netip.Prefix, a netip.Addr) int {
	base, own := network.Masked().Addr().As4(), a.As4()
	return int(int64(binary.BigEndian.Uint32(own[:])) - int64(binary.BigEndian.Uint32(base[:])))
}

// freeEndpoint is the lowest address for endpoints that is not used.
func freeEndpoint(network netip.Prefix, used map[netip.Addr]bool) (netip.Addr, error) {
	for n := firstEndpoint; n <= lastEndpoint; n++ {
		if a, ok := at(network, n); ok && !used[a] {
			return a, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("all %d endpoint addresses of %s are in use", lastEndpoint-firstEndpoint+1, network)
}

// lastMachine is the place of the last address for machines: the one behind it is for broadcasts.
func lastMachine(network netip.Prefix) int { return 1<<(32-network.Bits()) - 2 }

// freeMachine is the address for a machine that follows the highest used one, or, at the end of the network, the
// lowest free one. An address that a machine just left is not given to the next, since others may still take it for the old one.
func freeMachine(network netip.Prefix, used map[netip.Addr]bool, last netip.Addr) (netip.Addr, error) {
	end := lastMachine(network) + 1
	start := firstMachine
	if last.IsValid() && network.Contains(last) {
		start = max(start, number(network, last)+1)
	}
	for _, span := range [][2]int{{start, end}, {firstMachine, start}} {
		for n := span[0]; n < span[1]; n++ {
			if a, ok := at(network, n); ok && !used[a] {
				return a, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("all addresses for machines of %s are in use", network)
}

// freePods is the part of a cluster's pod network for its next machine; like freeMachine it begins after the last one given.
func freePods(network netip.Prefix, used map[netip.Prefix]bool, last netip.Prefix) (netip.Prefix, error) {
	count := 1 << (machinePods - network.Bits())
	start := 0
	if last.IsValid() && network.Contains(last.Addr()) {
		start = number(network, last.Addr())>>(32-machinePods) + 1
	}
	for i := range count {
		a, _ := at(network, (start+i)%count<<(32-machinePods))
		if p := netip.PrefixFrom(a, machinePods); !used[p] {
			return p, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("all %d parts of the pod network %s are in use", count, network)
}
