package sandbox

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/internal/local/hostcheck"
)

// EnsureNetwork makes the bridge with its address, for those who need it before there is a machine.
func (h *Host) EnsureNetwork(ctx context.Context) error {
	if err := os.MkdirAll(h.machines(), 0o700); err != nil {
		return fmt.Errorf("making the folder of machines: %w", err)
	}
	unlock, err := lockFolder(ctx, h.machines())
	if err != nil {
		return err
	}
	defer unlock()
	if _, err = h.bridge(); err != nil {
		return err
	}
	return h.raiseLimits()
}

// bridge returns the bridge, made if it is not there.
func (h *Host) bridge() (netlink.Link, error) {
	link, err := netlink.LinkByName(h.BridgeName())
	if isNotFound(err) {
		link, err = h.makeBridge()
	}
	if err != nil {
		return nil, fmt.Errorf("looking for the bridge %s: %w", h.BridgeName(), err)
	}
	address := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(h.Gateway(), h.network.Bits()))}
	if err := netlink.AddrReplace(link, address); err != nil {
		return nil, fmt.Errorf("giving %s to the bridge %s: %w", address.IPNet, h.BridgeName(), err)
	}
	if err := h.giveIPv6(link); err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("setting the bridge %s up: %w", h.BridgeName(), err)
	}
	if err := netlink.LinkSetAlias(link, h.alias()); err != nil {
		return nil, fmt.Errorf("saying on the bridge %s whose it is: %w", h.BridgeName(), err)
	}
	for _, f := range firewalls {
		if err := letThrough(f, h.BridgeName()); err != nil {
			return nil, err
		}
	}
	return link, nil
}

// giveIPv6 gives the bridge its IPv6 address, on a host with IPv6.
func (h *Host) giveIPv6(bridge netlink.Link) error {
	if !hostcheck.HasIPv6() {
		return nil
	}
	address := own(Address6(h.network, h.Gateway()), bits6)
	if err := netlink.AddrReplace(bridge, address); err != nil {
		return fmt.Errorf("giving %s to the bridge %s: %w", address.IPNet, h.BridgeName(), err)
	}
	return nil
}

// own is an address with the length of its network's prefix. One of IPv6 is used at once: no other machine can have it.
func own(a netip.Addr, bits int) *netlink.Addr {
	address := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, bits))}
	if a.Is6() {
		address.Flags = unix.IFA_F_NODAD
	}
	return address
}

// aliasLimit is the longest alias of a network interface (IFALIASZ of if_link.h, less its end).
const aliasLimit = 255

// alias tells on the bridge whose it is: a person who meets it can take the environment down, and a range that is in
// use is told with it.
func (h *Host) alias() string {
	alias := "quorate's environment in " + h.state
	if len(alias) > aliasLimit {
		return "an environment of quorate"
	}
	return alias
}

func (h *Host) makeBridge() (netlink.Link, error) {
	switch user, err := hostcheck.InUse(h.network, h.BridgeName()); {
	case err != nil:
		return nil, err
	case user != "":
		return nil, fmt.Errorf("address range %s is in use: %s; choose another range with --network", h.network, user)
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name = h.BridgeName()
	// Without an address of its own a bridge takes the lowest of its ports, and changes it when machines come and go.
	attributes.HardwareAddr = hardwareAddress(h.Gateway())
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err != nil {
		return nil, fmt.Errorf("making it: %w", err)
	}
	return netlink.LinkByName(h.BridgeName())
}

func isNotFound(err error) bool {
	_, ok := errors.AsType[netlink.LinkNotFoundError](err)
	return ok
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// prefix is the opposite of ipNet; the zero value for nil.
func prefix(n *net.IPNet) netip.Prefix {
	if n == nil {
		return netip.Prefix{}
	}
	address, _ := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), bits)
}

// hardwareAddress is made of the IP address, so that a machine that is started again is known to its neighbours still.
func hardwareAddress(a netip.Addr) net.HardwareAddr {
	b := a.As4()
	return net.HardwareAddr{0x02, 0x71, b[0], b[1], b[2], b[3]}
}

// linkName is the host's end of the machine's link: q, the environment's id, and the number of the address in the network.
func (h *Host) link(a netip.Addr) string {
	own, base := a.As4(), h.network.Addr().As4()
	return fmt.Sprintf("q%s%d", h.ID(), binary.BigEndian.Uint32(own[:])-binary.BigEndian.Uint32(base[:]))
}

// linkMTU is the size of packets on machines' links, in bytes.
const linkMTU = 1500

// connect makes the machine's link and its addresses, in the network namespace of its first process.
func (h *Host) connect(ctx context.Context, r *record, pid int) error {
	if err := h.EnsureNetwork(ctx); err != nil {
		return err
	}
	bridge, err := netlink.LinkByName(h.BridgeName())
	if err != nil {
		return fmt.Errorf("looking for the bridge %s: %w", h.BridgeName(), err)
	}
	if err := h.disconnect(r.Spec.Address); err != nil {
		return err
	}
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MTU, attributes.MasterIndex = h.link(r.Spec.Address), linkMTU, bridge.Attrs().Index
	pair := &netlink.Veth{
		LinkAttrs: attributes, PeerName: "eth0", PeerNamespace: netlink.NsPid(pid),
		PeerHardwareAddr: hardwareAddress(r.Spec.Address), PeerMTU: linkMTU,
	}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("making the link %s: %w", attributes.Name, err)
	}
	if err := inNetwork(pid, func(n *netlink.Handle) error { return h.configure(n, r) }); err != nil {
		return err
	}
	return h.setLink(r)
}

// disconnect removes the host's end of a link, and the machine's with it.
func (h *Host) disconnect(a netip.Addr) error {
	link, err := netlink.LinkByName(h.link(a))
	if isNotFound(err) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("removing the link %s: %w", h.link(a), err)
	}
	return nil
}

// setLink has the host's end up, or down while the machine is partitioned.
func (h *Host) setLink(r *record) error {
	name := h.link(r.Spec.Address)
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("looking for the link %s: %w", name, err)
	}
	change, word := netlink.LinkSetUp, "up"
	if r.Partitioned {
		change, word = netlink.LinkSetDown, "down"
	}
	if err := change(link); err != nil {
		return fmt.Errorf("setting the link %s %s: %w", name, word, err)
	}
	return nil
}

// inNetwork calls do with a handle to a process's network namespace.
func inNetwork(pid int, do func(*netlink.Handle) error) error {
	ns, err := netns.GetFromPid(pid)
	if err != nil {
		return fmt.Errorf("opening the network namespace of process %d: %w", pid, err)
	}
	defer func() { _ = ns.Close() }()
	handle, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("entering the network namespace of process %d: %w", pid, err)
	}
	defer handle.Close()
	return do(handle)
}

// configure sets addresses and routes inside the machine.
func (h *Host) configure(n *netlink.Handle, r *record) error {
	for _, name := range []string{"lo", "eth0"} {
		link, err := n.LinkByName(name)
		if err != nil {
			return fmt.Errorf("looking for %s in %s: %w", name, r.Spec.Name, err)
		}
		if name == "eth0" {
			if err := h.address(n, link, r); err != nil {
				return err
			}
		}
		if err := n.LinkSetUp(link); err != nil {
			return fmt.Errorf("setting %s of %s up: %w", name, r.Spec.Name, err)
		}
	}
	for _, a := range r.Spec.Addresses() {
		gateway := h.Gateway()
		if a.Is6() {
			gateway = Address6(h.network, gateway)
		}
		if err := n.RouteReplace(&netlink.Route{Gw: gateway.AsSlice()}); err != nil {
			return fmt.Errorf("setting the default route of %s via %s: %w", r.Spec.Name, gateway, err)
		}
	}
	return setPeers(n, r)
}

// address gives a machine's link its addresses.
func (h *Host) address(n *netlink.Handle, link netlink.Link, r *record) error {
	for _, a := range r.Spec.Addresses() {
		bits := h.network.Bits()
		if a.Is6() {
			bits = bits6
		}
		if err := n.AddrReplace(link, own(a, bits)); err != nil {
			return fmt.Errorf("giving %s to %s: %w", a, r.Spec.Name, err)
		}
	}
	return nil
}

// peerProtocol marks the routes that SetPeers made: what pods' network plugins and people add is left alone.
const peerProtocol netlink.RouteProtocol = 0x71

func setPeers(n *netlink.Handle, r *record) error {
	missing, err := removeStalePeers(n, r)
	if err != nil {
		return err
	}
	for to, via := range missing {
		route := &netlink.Route{Dst: ipNet(to), Gw: via.AsSlice(), Protocol: peerProtocol}
		if err := n.RouteReplace(route); err != nil {
			return fmt.Errorf("setting the route of %s to %s via %s: %w", r.Spec.Name, to, via, err)
		}
	}
	return nil
}

// removeStalePeers removes the routes to what is no peer any more, and returns the peers without a route, or with a wrong one.
func removeStalePeers(n *netlink.Handle, r *record) (map[netip.Prefix]netip.Addr, error) {
	missing := maps.Clone(r.Peers)
	filter := &netlink.Route{Protocol: peerProtocol}
	routes, err := n.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, fmt.Errorf("listing the routes of %s: %w", r.Spec.Name, err)
	}
	for _, route := range routes {
		to := prefix(route.Dst)
		via, _ := netip.AddrFromSlice(route.Gw)
		if missing[to] == via.Unmap() {
			delete(missing, to)
			continue
		}
		if _, kept := r.Peers[to]; !kept {
			if err := n.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
				return nil, fmt.Errorf("removing the route of %s to %s: %w", r.Spec.Name, to, err)
			}
		}
	}
	return missing, nil
}
