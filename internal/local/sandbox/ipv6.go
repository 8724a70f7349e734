package sandbox

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
)

// bits6 is the length of the prefix of an environment's IPv6 network: the rest has a number for each IPv4 address.
const bits6 = 96

// Network6 returns the IPv6 network of the environment that has an IPv4 network. It is a unique local range (RFC 4193) with that network's
// first address in it, so that environments whose IPv4 networks differ do not share it.
func Network6(network netip.Prefix) netip.Prefix {
	b, base := [16]byte{0xfd, 0x71, 0x71, 0x75}, network.Masked().Addr().As4()
	copy(b[4:], base[:])
	return netip.PrefixFrom(netip.AddrFrom16(b), bits6)
}

// Address6 returns the IPv6 address that belongs to an IPv4 address of an environment: the one with the same number.
func Address6(network netip.Prefix, a netip.Addr) netip.Addr {
	b, base, own := Network6(network).Addr().As16(), network.Masked().Addr().As4(), a.As4()
	binary.BigEndian.PutUint32(b[12:], binary.BigEndian.Uint32(own[:])-binary.BigEndian.Uint32(base[:]))
	return netip.AddrFrom16(b)
}

// HasIPv4 reports whether the machine's link has its IPv4 address.
func (s Spec) HasIPv4() bool { return !s.IPv6Only }

// Addresses are those of the machine's link, the one that it is reached at first.
func (s Spec) Addresses() []netip.Addr {
	var all []netip.Addr
	if s.HasIPv4() {
		all = append(all, s.Address)
	}
	if s.Address6.IsValid() {
		all = append(all, s.Address6)
	}
	return all
}

// podRanges are the ranges of the machine's pods, in the order of its addresses.
func (s Spec) podRanges() []netip.Prefix {
	var all []netip.Prefix
	if s.HasIPv4() && s.PodCIDR.IsValid() {
		all = append(all, s.PodCIDR)
	}
	if s.PodCIDR6.IsValid() {
		all = append(all, s.PodCIDR6)
	}
	return all
}

// check6 returns what is wrong with a machine's IPv6 addresses.
func (h *Host) check6(s Spec) error {
	switch {
	case s.IPv6Only && !s.Address6.IsValid():
		return fmt.Errorf("machine %s: address6: must be given for a machine without IPv4", s.Name)
	case s.Address6.IsValid() && s.Address6 != Address6(h.network, s.Address):
		return fmt.Errorf("machine %s: address6 %s: must be %s, which belongs to %s", s.Name, s.Address6, Address6(h.network, s.Address),
			s.Address)
	case s.PodCIDR6.IsValid() && (!s.PodCIDR6.Addr().Is6() || s.PodCIDR6.Overlaps(Network6(h.network))):
		return fmt.Errorf("machine %s: pod range %s: must be an IPv6 range outside of %s", s.Name, s.PodCIDR6, Network6(h.network))
	}
	return nil
}

// hosts are the lines of /etc/hosts with which a machine finds its own name.
func (s Spec) hosts() string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n")
	for _, a := range s.Addresses() {
		fmt.Fprintf(&b, "%s %s\n", a, s.Name)
	}
	return b.String()
}

// cni is the configuration of the pods' network.
func (s Spec) cni() string {
	var ranges, routes []string
	for _, p := range s.podRanges() {
		ranges = append(ranges, fmt.Sprintf(`[{"subnet": "%s"}]`, p))
		everywhere := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if p.Addr().Is6() {
			everywhere = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		routes = append(routes, fmt.Sprintf(`{"dst": "%s"}`, everywhere))
	}
	return fmt.Sprintf(cniConfig, strings.Join(ranges, ", "), strings.Join(routes, ", "), linkMTU)
}

// kubeletArguments is the kubelet's own file of flags; empty where the kubelet finds the machine's one address itself.
func (s Spec) kubeletArguments() string {
	if !s.Address6.IsValid() {
		return ""
	}
	var all []string
	for _, a := range s.Addresses() {
		all = append(all, a.String())
	}
	return "KUBELET_EXTRA_ARGS=--node-ip=" + strings.Join(all, ",") + "\n"
}
