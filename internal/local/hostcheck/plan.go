package hostcheck

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
)

// InUse says what on this host uses addresses of a range already: an interface's address or a route. It is empty if
// nothing does. The interface named own may.
func InUse(prefix netip.Prefix, own string) (string, error) {
	names, err := linkNames()
	if err != nil {
		return "", err
	}
	if user, err := addressIn(prefix, own, names); err != nil || user != "" {
		return user, err
	}
	return routeInto(prefix, own, names)
}

// linkName is how an interface is called.
type linkName struct{ name, alias string }

// String is its name, with what is told about it: a bridge of quorate tells which environment it belongs to.
func (l linkName) String() string {
	if l.alias == "" {
		return l.name
	}
	return fmt.Sprintf("%s (%s)", l.name, l.alias)
}

// linkNames are the names of the host's interfaces by their numbers.
func linkNames() (map[int]linkName, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing network interfaces: %w", err)
	}
	names := map[int]linkName{}
	for _, link := range links {
		names[link.Attrs().Index] = linkName{link.Attrs().Name, link.Attrs().Alias}
	}
	return names, nil
}

// addressIn says which interface has an address of a range; see InUse.
func addressIn(prefix netip.Prefix, own string, names map[int]linkName) (string, error) {
	addresses, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return "", fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range addresses {
		if link := names[a.LinkIndex]; link.name != own && overlaps(prefix, a.IPNet) {
			return fmt.Sprintf("interface %s has the address %s", link, a.IPNet), nil
		}
	}
	return "", nil
}

// routeInto says which route leads into a range; see InUse.
func routeInto(prefix netip.Prefix, own string, names map[int]linkName) (string, error) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return "", fmt.Errorf("listing routes: %w", err)
	}
	for _, r := range routes {
		if link := names[r.LinkIndex]; (link.name == "" || link.name != own) && overlaps(prefix, r.Dst) {
			return fmt.Sprintf("there is a route to %s by interface %s", r.Dst, link), nil
		}
	}
	return "", nil
}

// overlaps reports whether a network shares addresses with a range. The default route, and its halves that VPNs set, share
// addresses with everything and are in the way of nothing.
func overlaps(prefix netip.Prefix, network *net.IPNet) bool {
	if network == nil {
		return false
	}
	address, ok := netip.AddrFromSlice(network.IP)
	ones, _ := network.Mask.Size()
	if !ok || ones < 2 {
		return false
	}
	return netip.PrefixFrom(address.Unmap(), ones).Overlaps(prefix)
}

// PortInUse reports whether another process listens on a TCP port of an address of this host.
func PortInUse(address netip.AddrPort) bool {
	listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(address))
	if err != nil {
		return errors.Is(err, syscall.EADDRINUSE)
	}
	_ = listener.Close()
	return false
}

// overlay mounts an overlay over / whose upper layer is in a folder, in a mount namespace of its own: not every file
// system can carry one, and an overlay itself cannot.
func overlay(state string) []Lack {
	folder := nearest(state)
	try, err := os.MkdirTemp(folder, ".quorate-try-")
	if err != nil {
		return []Lack{{What: "a state folder that can be written", Why: err.Error(), Fix: "choose another with --state"}}
	}
	defer func() { _ = os.RemoveAll(try) }() // empty folders
	for _, part := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(filepath.Join(try, part), 0o700); err != nil {
			return []Lack{{What: "a state folder that can be written", Why: err.Error(), Fix: "choose another with --state"}}
		}
	}
	program, _ := Find("mount")
	cmd := exec.Command(program, "-t", "overlay", "overlay", "-o",
		fmt.Sprintf("lowerdir=/,upperdir=%s/upper,workdir=%s/work", try, try), filepath.Join(try, "root"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	output, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	return []Lack{{
		What: "overlayfs on the file system of " + folder,
		Why:  "machines' file systems are layers there, and mounting one failed: " + strings.TrimSpace(string(output)),
		Fix:  "choose a folder on ext4, xfs or btrfs with --state",
	}}
}

// nearest returns the folder itself, or the nearest one upwards that is there.
func nearest(folder string) string {
	for {
		if info, err := os.Stat(folder); (err == nil && info.IsDir()) || folder == filepath.Dir(folder) {
			return folder
		}
		folder = filepath.Dir(folder)
	}
}

func golang() []Lack {
	if _, ok := Find("go"); ok {
		return nil
	}
	return []Lack{{
		What: "Go",
		Why:  "everything that runs on machines is built from source, once",
		Fix:  "install Go 1.26 or later from https://go.dev/dl/ and put it into PATH",
	}}
}
