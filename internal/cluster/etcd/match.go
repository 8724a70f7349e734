package etcd

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/core/plan"
)

// Host is a machine on which a member may run, as far as that tells whose a member is.
type Host struct {
	// Name is the machine's own.
	Name string
	// Node is the name of its Node, by which kubeadm names members; empty: none is known. Registered: the
	// Node itself was seen.
	Node       string
	Registered bool
	// Names are the host names that its infrastructure gave it.
	Names []string
	// Addresses are its internal ones and its Node's, none of them an IPv4 address written as IPv6.
	Addresses []netip.Addr
	// Leaving: it is being deleted.
	Leaving bool
}

// Matching says on which host each member runs or will run.
type Matching struct {
	// Hosts are the hosts' names by the members' IDs. A member that is not in it is on no known host.
	Hosts map[uint64]string
	// Contradiction says which member's name and address tell of different hosts; empty: none does.
	Contradiction string
}

// Match finds the host of every member. It looks for the name, then for the address where
// there is no name yet or no Node. Last comes the address at which a member answers whose name no Node has, as
// etcd's name can be configured. A voter that lives is never on no host because of its name. A placeholder is on no host.
// nodes are the names of all Nodes, also of those of no host.
func Match(members []Member, hosts []Host, nodes []string) Matching {
	c := candidates{hosts: hosts, nodes: nodes}
	found := Matching{Hosts: map[uint64]string{}}
	members = slices.DeleteFunc(slices.Clone(members), Member.IsPlaceholder)
	for _, find := range []func(Member, map[uint64]string) string{c.byNodeName, c.byPeerAddress, c.byAnswer} {
		for _, m := range members {
			if _, known := found.Hosts[m.ID]; known {
				continue
			}
			if name := find(m, found.Hosts); name != "" {
				found.Hosts[m.ID] = name
			}
		}
	}
	for _, m := range members {
		if found.Contradiction == "" {
			found.Contradiction = c.contradicts(m, found.Hosts[m.ID])
		}
	}
	return found
}

// candidates are the hosts that a member may be on.
type candidates struct {
	hosts []Host
	nodes []string
}

// byNodeName finds the host whose Node has the member's name, as kubeadm names members.
func (c candidates) byNodeName(m Member, _ map[uint64]string) string {
	if m.Name == "" {
		return ""
	}
	for _, h := range c.hosts {
		if h.Node == m.Name {
			return h.Name
		}
	}
	for _, h := range c.hosts {
		if c.mayRegister(h, m) {
			return h.Name
		}
	}
	return ""
}

// mayRegister reports whether the Node that a host is about to register can be the member's: it has its name, and no
// other host has its address.
func (c candidates) mayRegister(h Host, m Member) bool {
	return !h.Registered && slices.Contains(h.Names, m.Name) && (h.serves(m) || len(h.Addresses) == 0 && c.oneAt(m) == "")
}

// byPeerAddress finds the host at the address of a member that has not started, or whose
// host has no Node yet: kubeadm lets etcd join before the kubelet.
func (c candidates) byPeerAddress(m Member, _ map[uint64]string) string {
	for _, h := range c.hosts {
		if h.mayBear(m.Name) && h.serves(m) {
			return h.Name
		}
	}
	return ""
}

// byAnswer finds the one host on which a member lives whose name no Node has, and that
// has no other: the one whose Node answered as this member, else the only one at its address.
func (c candidates) byAnswer(m Member, taken map[uint64]string) string {
	if c.somebodys(m.Name) {
		return ""
	}
	name := c.answeredOn(m)
	if name == "" && m.Health == plan.Healthy {
		name = c.oneAt(m)
	}
	for _, other := range taken {
		if other == name {
			return ""
		}
	}
	return name
}

// answeredOn returns the host whose Node answered as this member; empty: none did.
func (c candidates) answeredOn(m Member) string {
	for _, h := range c.hosts {
		if m.At != "" && h.Node == m.At {
			return h.Name
		}
	}
	return ""
}

// contradicts says that a member that is not proven dead is named after one host, and answers
// on another or lies at the address of another alone, while both are there. Empty: it does
// not, for all that is known.
func (c candidates) contradicts(m Member, name string) string {
	at := cmp.Or(c.answeredOn(m), c.oneAt(m))
	if m.Name == "" || m.Health == plan.Unhealthy || name == "" || at == "" || at == name {
		return ""
	}
	by, other := c.named(name), c.named(at)
	if m.At == "" && len(by.Addresses) == 0 || by.Leaving || other.Leaving {
		return ""
	}
	return fmt.Sprintf("etcd member %s has the name %s, which is that of machine %s, and is found at machine %s (peer address %s): a person "+
		"must see on which of them it runs",
		FormatID(m.ID), m.Name, name, at, strings.Join(m.PeerURLs, ", "))
}

func (c candidates) named(name string) Host {
	for _, h := range c.hosts {
		if h.Name == name {
			return h
		}
	}
	return Host{}
}

// oneAt returns the host at a member's peer address; empty if that is none's, or several'.
func (c candidates) oneAt(m Member) string {
	name := ""
	for _, h := range c.hosts {
		switch {
		case !h.serves(m):
		case name != "":
			return ""
		default:
			name = h.Name
		}
	}
	return name
}

// somebodys reports whether a name is that of a Node, or of a host.
func (c candidates) somebodys(name string) bool {
	return slices.Contains(c.nodes, name) ||
		slices.ContainsFunc(c.hosts, func(h Host) bool { return h.Node == name || slices.Contains(h.Names, name) })
}

// serves reports whether one of the member's peer addresses is the host's.
func (h Host) serves(m Member) bool {
	for _, peer := range m.PeerURLs {
		u, err := url.Parse(peer)
		if err != nil {
			continue
		}
		at, err := netip.ParseAddr(u.Hostname())
		if err == nil && slices.Contains(h.Addresses, at.Unmap()) {
			return true
		}
	}
	return false
}

// mayBear reports whether a member of that name may run on a host whose address
// it has. Addresses are given out again: a name that is not the host's own
// belongs to an earlier one.
func (h Host) mayBear(name string) bool {
	switch {
	case name == "":
		return true
	case h.Registered:
		return false
	}
	return len(h.Names) == 0 || slices.Contains(h.Names, name) || h.Name == name
}
