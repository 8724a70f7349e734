package provider

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// hostAddresses gives endpoints their addresses on the environment's bridge.
type hostAddresses struct{ machines machines }

// add has the host answer for an address. One that the host has anyway, on whatever interface, stays where it is.
func (h hostAddresses) add(ctx context.Context, a netip.Addr) error {
	if err := h.machines.EnsureNetwork(ctx); err != nil {
		return err
	}
	all, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing the host's addresses: %w", err)
	}
	for _, have := range all {
		if have.IP.Equal(a.AsSlice()) {
			return nil
		}
	}
	bridge, err := netlink.LinkByName(h.machines.BridgeName())
	if err != nil {
		return fmt.Errorf("looking for bridge %s: %w", h.machines.BridgeName(), err)
	}
	if err := netlink.AddrReplace(bridge, own(a)); err != nil {
		return fmt.Errorf("giving address %s to bridge %s: %w", a, h.machines.BridgeName(), err)
	}
	return nil
}

// remove takes away what add gave, and nothing else.
func (h hostAddresses) remove(a netip.Addr) error {
	bridge, err := netlink.LinkByName(h.machines.BridgeName())
	if _, gone := errors.AsType[netlink.LinkNotFoundError](err); gone {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for bridge %s: %w", h.machines.BridgeName(), err)
	}
	if err := netlink.AddrDel(bridge, own(a)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("removing address %s from bridge %s: %w", a, h.machines.BridgeName(), err)
	}
	return nil
}

// own is the address alone, without a network: so it is told apart from those that the host has for other purposes.
func own(a netip.Addr) *netlink.Addr {
	address := &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}}
	if a.Is6() {
		address.Flags = unix.IFA_F_NODAD
	}
	return address
}
