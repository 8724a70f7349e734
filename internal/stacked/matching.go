package stacked

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/etcd"
	"github.com/quorate/quorate/internal/machine"
	"github.com/quorate/quorate/internal/plan"
)

// matching says on which machine each member of etcd runs or will run.
type matching struct {
	// of are the machines' names by the members' IDs. Who is not in it is on no known machine.
	of map[uint64]string
	// contradiction says which member's name and address tell of different machines; empty: none.
	contradiction string
}

// match finds the machine of every member: by name, then by address where there is no name yet
// or no Node, and last by the address at which a member answers whose name is nobody's, as
// etcd's name can be configured. A voter that lives is never on no machine because of its name.
func (s *scene) match(members []etcd.Member) matching {
	found := matching{of: map[uint64]string{}}
	for _, find := range []func(etcd.Member, map[uint64]string) string{s.byNodeName, s.byPeerAddress, s.byAnswer} {
		for _, m := range members {
			if _, known := found.of[m.ID]; known {
				continue
			}
			if name := find(m, found.of); name != "" {
				found.of[m.ID] = name
			}
		}
	}
	for _, m := range members {
		if found.contradiction == "" {
			found.contradiction = s.contradicts(m, found.of[m.ID])
		}
	}
	return found
}

// machineOf returns the name of the machine that one member runs or will run on.
func (s *scene) machineOf(m etcd.Member) string { return s.match([]etcd.Member{m}).of[m.ID] }

// byNodeName finds the machine whose Node has the member's name, as kubeadm names members.
func (s *scene) byNodeName(m etcd.Member, _ map[uint64]string) string {
	if m.Name == "" {
		return ""
	}
	for _, facts := range s.observed.Machines {
		if facts.Node == m.Name {
			return facts.Name
		}
	}
	for _, mach := range s.machines {
		known := len(mach.addresses()) > 0
		if mach.node == nil && atHost(mach.Machine, m.Name) && (serves(m, mach) || !known && s.oneAt(m) == "") {
			return mach.Name
		}
	}
	return ""
}

// byPeerAddress finds the machine at the address of a member that has not started, or whose
// machine has no Node yet: kubeadm lets etcd join before the kubelet.
func (s *scene) byPeerAddress(m etcd.Member, _ map[uint64]string) string {
	for _, mach := range s.machines {
		if mayBe(m.Name, mach.Machine, mach.node) && serves(m, mach) {
			return mach.Name
		}
	}
	return ""
}

// byAnswer finds the one machine on which a member lives that is named after nobody, and that
// has no other: the one whose Node answered as this member, else the only one at its address.
func (s *scene) byAnswer(m etcd.Member, taken map[uint64]string) string {
	if s.somebodys(m.Name) {
		return ""
	}
	name := s.answeredOn(m)
	if name == "" && m.Health == plan.Healthy {
		name = s.oneAt(m)
	}
	for _, other := range taken {
		if other == name {
			return ""
		}
	}
	return name
}

// answeredOn returns the machine whose Node answered as this member; empty: none did.
func (s *scene) answeredOn(m etcd.Member) string {
	for _, facts := range s.observed.Machines {
		if m.At != "" && facts.Node == m.At {
			return facts.Name
		}
	}
	return ""
}

// contradicts says that a member that is not proven dead is named after one machine, and answers
// on another or lies at the address of another alone, while both are there. Empty: it does
// not, for all that is known.
func (s *scene) contradicts(m etcd.Member, name string) string {
	at := cmp.Or(s.answeredOn(m), s.oneAt(m))
	if m.Name == "" || m.Health == plan.Unhealthy || name == "" || at == "" || at == name {
		return ""
	}
	by, other := s.machine(name), s.machine(at)
	if m.At == "" && len(by.addresses()) == 0 || !by.DeletionTimestamp.IsZero() || !other.DeletionTimestamp.IsZero() {
		return ""
	}
	return fmt.Sprintf("etcd member %s has the name %s, which is that of machine %s, and is found at machine %s (peer address %s): a person must see on which of them it runs",
		etcd.FormatID(m.ID), m.Name, name, at, strings.Join(m.PeerURLs, ", "))
}

// oneAt returns the machine at a member's peer address; empty if that is none's, or several'.
func (s *scene) oneAt(m etcd.Member) string {
	name := ""
	for _, mach := range s.machines {
		switch {
		case !serves(m, mach):
		case name != "":
			return ""
		default:
			name = mach.Name
		}
	}
	return name
}

// serves reports whether one of the member's peer addresses is the machine's.
func serves(m etcd.Member, on *observedMachine) bool {
	return servesPeer(m.PeerURLs, on.addresses())
}

// addresses are the internal ones of the machine and its Node, as far as they are known.
func (m *observedMachine) addresses() []string {
	var all []string
	if ip := machine.InternalIP(m.Machine); ip != "" {
		all = append(all, ip)
	}
	if m.node != nil && nodeIP(m.node) != "" {
		all = append(all, nodeIP(m.node))
	}
	return all
}

// somebodys reports whether a name is that of a Node, or of a machine's host.
func (s *scene) somebodys(name string) bool {
	return slices.ContainsFunc(s.view.Nodes, func(n corev1.Node) bool { return n.Name == name }) ||
		slices.ContainsFunc(s.observed.Machines, func(m plan.Machine) bool { return m.Node == name }) ||
		slices.ContainsFunc(s.machines, func(m *observedMachine) bool { return atHost(m.Machine, name) })
}

// atHost reports whether the infrastructure gave the machine that host name.
func atHost(m *clusterv1.Machine, name string) bool {
	return slices.ContainsFunc(m.Status.Addresses, func(a clusterv1.MachineAddress) bool {
		return (a.Type == clusterv1.MachineHostName || a.Type == clusterv1.MachineInternalDNS) && a.Address == name
	})
}
