package sandbox

import (
	"net/netip"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// TestHalvesOfTheDefaultRoute: the routes of half of all addresses that VPNs set do not stand in the way of a bridge.
func TestHalvesOfTheDefaultRoute(t *testing.T) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the test, and its network with it
	made, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = made.Close() }()
	if err := netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "vpn"}}); err != nil {
		t.Fatal(err)
	}
	vpn, err := netlink.LinkByName("vpn")
	if err != nil {
		t.Fatal(err)
	}
	half := netip.MustParsePrefix("128.0.0.0/1")
	for _, do := range []func() error{
		func() error { return netlink.LinkSetUp(vpn) },
		func() error {
			return netlink.RouteAdd(&netlink.Route{LinkIndex: vpn.Attrs().Index, Dst: ipNet(half), Scope: netlink.SCOPE_LINK})
		},
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	h, err := Open(t.TempDir(), testNetwork, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.EnsureNetwork(t.Context()); err != nil {
		t.Error(err)
	}
}
