package provider

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// The sizes of the part of a cluster's pod networks that lies on one machine.
const (
	machinePods  = 24
	machinePods6 = 64
)

// defaultPods is the pod network of a cluster that names none.
var defaultPods = netip.MustParsePrefix("10.244.0.0/16")

// podNetworks are the ranges of a cluster's pods. A family that the cluster does not use has none.
type podNetworks struct{ v4, v6 netip.Prefix }

// podNetwork returns the ranges of a cluster's pods, the first of each family that the Cluster names.
func podNetwork(ranges []string) (podNetworks, error) {
	if len(ranges) == 0 {
		return podNetworks{v4: defaultPods}, nil
	}
	var p podNetworks
	for _, r := range ranges {
		one, err := netip.ParsePrefix(r)
		if err != nil {
			return podNetworks{}, fmt.Errorf("spec.clusterNetwork.pods.cidrBlocks has %q, want an address range like %s", r, defaultPods)
		}
		switch {
		case one.Addr().Is4() && !p.v4.IsValid():
			p.v4 = one.Masked()
		case one.Addr().Is6() && !p.v6.IsValid():
			p.v6 = one.Masked()
		}
	}
	return p, p.check()
}

// check returns what is wrong with the sizes of the ranges.
func (p podNetworks) check() error {
	if p.v4.IsValid() && p.v4.Bits() > machinePods {
		return fmt.Errorf("spec.clusterNetwork.pods.cidrBlocks has %s, want a range of at least /%d: each machine gets as much", p.v4,
			machinePods)
	}
	if most := machinePods6 - (machinePods - p.numbered().Bits()); p.v6.IsValid() && p.v6.Bits() > most {
		return fmt.Errorf("spec.clusterNetwork.pods.cidrBlocks has %s, want a range of at least /%d: each machine gets a /%d", p.v6, most,
			machinePods6)
	}
	return nil
}

// v6Only reports whether pods have no IPv4 addresses, and so neither have machines.
func (p podNetworks) v6Only() bool { return p.v6.IsValid() && !p.v4.IsValid() }

// have reports whether pods have addresses of the same family.
func (p podNetworks) have(a netip.Addr) bool {
	return a.Is4() && p.v4.IsValid() || a.Is6() && p.v6.IsValid()
}

// numbered is the range whose parts tell which part of each range a machine has.
func (p podNetworks) numbered() netip.Prefix {
	if p.v4.IsValid() {
		return p.v4
	}
	return defaultPods
}

// part6 returns the part of the IPv6 range of the machine that has a part of numbered; not valid: the cluster has no IPv6 range.
func (p podNetworks) part6(part netip.Prefix) netip.Prefix {
	if !p.v6.IsValid() || !part.IsValid() || !part.Addr().Is4() {
		return netip.Prefix{}
	}
	base := p.v6.Addr().As16()
	index := uint64(number(p.numbered(), part.Addr()) >> (32 - machinePods))
	binary.BigEndian.PutUint64(base[:8], binary.BigEndian.Uint64(base[:8])+index)
	return netip.PrefixFrom(netip.AddrFrom16(base), machinePods6)
}
