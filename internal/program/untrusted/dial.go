package untrusted

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// An AddressError says that an address is not dialed: Refused lists which are not.
type AddressError struct{ Address netip.Addr }

// Refused says which addresses Dialer refuses, for messages.
const Refused = "loopback, link-local, multicast, unspecified, reserved or of a cloud's metadata service"

// Error implements error.
func (e AddressError) Error() string {
	return fmt.Sprintf("the address %s is not dialed: it must not be %s", e.Address, Refused)
}

// Dialer returns a dialer for addresses that tenants name. It refuses those that Refused lists, also where a name resolves
// to one. It dials all other addresses, those of the management cluster's Pods, Services and hosts among them, unless a
// NetworkPolicy forbids it.
func Dialer() *net.Dialer { return &net.Dialer{Control: refuseOwn} }

// DialerExcept returns a dialer that refuses the given ranges too, such as those of the management cluster.
func DialerExcept(ranges []netip.Prefix) *net.Dialer {
	return &net.Dialer{Control: func(network, address string, c syscall.RawConn) error {
		if err := refuseOwn(network, address, c); err != nil {
			return err
		}
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("dialing %q: %w", address, err)
		}
		at := to.Addr().WithZone("")
		for _, a := range []netip.Addr{at.Unmap(), embedded(at)} {
			if slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) }) {
				return RangeError{to.Addr()}
			}
		}
		return nil
	}}
}

// A RangeError says that an address is not dialed because it is in a range that the manager was told to refuse.
type RangeError struct{ Address netip.Addr }

// Error implements error.
func (e RangeError) Error() string {
	return fmt.Sprintf("the address %s is not dialed: it is in a range that the manager refuses", e.Address)
}

// refuseOwn is called with each address that a name resolves to, before a connection is made.
func refuseOwn(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("dialing %q: %w", address, err)
	}
	at := to.Addr().WithZone("")
	if isRefused(at) || isRefused(embedded(at)) {
		return AddressError{to.Addr()}
	}
	return nil
}

// refusedRanges are what netip has no name for. These are 0.0.0.0/8, which Linux connects to itself, and the
// reserved range with the broadcast address. Others are the metadata services of clouds that are not link-local: AWS, Google, Alibaba,
// Azure and Oracle.
var refusedRanges = prefixes(
	"0.0.0.0/8", "240.0.0.0/4", "fd00:ec2::/32", "fd20:ce::254/128", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
)

func isRefused(at netip.Addr) bool {
	return at.IsLoopback() || at.IsLinkLocalUnicast() || at.IsMulticast() || at.IsUnspecified() ||
		slices.ContainsFunc(refusedRanges, func(p netip.Prefix) bool { return p.Contains(at) })
}

// The ranges of IPv6 addresses that lead to an IPv4 address, which they contain.
var (
	// inLastBytes are IPv4-compatible and IPv4-translated addresses, and NAT64's two ranges (RFC 6052, and RFC 8215 with a
	// prefix of 96 bits).
	inLastBytes = prefixes("::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
	// sixToFour are those of 6to4 (RFC 3056).
	sixToFour = netip.MustParsePrefix("2002::/16")
)

// embedded returns the IPv4 address that an IPv6 address leads to; of others the address itself.
func embedded(at netip.Addr) netip.Addr {
	if at.Is4() {
		return at
	}
	bytes := at.As16()
	// Prefix.Contains matches no IPv4-mapped address.
	switch {
	case at.Is4In6(), slices.ContainsFunc(inLastBytes, func(p netip.Prefix) bool { return p.Contains(at) }):
		return netip.AddrFrom4([4]byte(bytes[12:]))
	case sixToFour.Contains(at):
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return at
}

func prefixes(all ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(all))
	for i, p := range all {
		parsed[i] = netip.MustParsePrefix(p)
	}
	return parsed
}
