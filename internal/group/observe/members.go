package observe

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/cluster/machine"
)

// matching says which members of etcd belong to the machines of a view, and which may still come.
type matching struct{ *View }

// Surveyor asks the members of one etcd cluster. *etcd.Cluster is one.
type Surveyor interface {
	// Survey asks every target by itself what it knows.
	Survey(ctx context.Context, targets []etcd.Target) etcd.Survey
}

// Match says on which machine each member of etcd runs or will run.
func (o *View) Match(members []etcd.Member) etcd.Matching {
	hosts := make([]etcd.Host, len(o.Machines))
	for i, m := range o.Machines {
		hosts[i] = etcd.Host{
			Name:       m.Name,
			Node:       matching{o}.memberName(m),
			Registered: m.Node != nil,
			Names:      machine.HostNames(m.Machine),
			Addresses:  machine.Addresses(m.Machine, m.Node),
			Leaving:    !m.DeletionTimestamp.IsZero(),
		}
	}
	nodes := make([]string, len(o.Inside.Nodes))
	for i := range o.Inside.Nodes {
		nodes[i] = o.Inside.Nodes[i].Name
	}
	return etcd.Match(members, hosts, nodes)
}

// memberName is the name that the member on a machine has, as far as it is known: its Node's, or, where machines have none, its own.
func (o matching) memberName(m *Machine) string {
	if o.Nodeless {
		return m.Name
	}
	return m.Facts.Host
}

// MachineOf returns the name of the machine that one member runs or will run on.
func (o *View) MachineOf(m etcd.Member) string { return o.Match([]etcd.Member{m}).Hosts[m.ID] }

// Address is the internal IP address of a machine: its Node's, or else its Machine's; empty: neither is known.
func (m *Machine) Address() string {
	ip := machine.InternalIP(m.Machine)
	if m.Node != nil {
		ip = cmp.Or(machine.NodeIP(m.Node), ip)
	}
	return ip
}

// hasLeft reports whether the member of a machine has left etcd: the machine is being deleted, and its hook was released or its member
// removed.
func (o *View) hasLeft(m *Machine) bool {
	return m.Facts.Deleting && (!m.Facts.Hook || m.Facts.Name == o.Left)
}

// Dial returns a way to the etcd of a Node.
type Dial func(node, ip string) etcd.Target

// Targets returns the members that can be asked, on the Nodes of the machines.
// It includes every other Node that calls itself a control plane, because a member
// whose Machine is gone may still run there.
func (o *View) Targets(to Dial) []etcd.Target {
	if o.Nodeless {
		return matching{o}.memberTargets(to)
	}
	var targets []etcd.Target
	known := map[string]bool{}
	for _, m := range o.Machines {
		name := m.Facts.Host
		if name == "" {
			continue
		}
		known[name] = true
		if o.hasLeft(m) {
			continue // waiting for the answer of what is going costs up to 2 s
		}
		targets = append(targets, to(name, m.Address()))
	}
	for _, node := range o.otherNodes(known) {
		targets = append(targets, to(node.Name, machine.NodeIP(node)))
	}
	slices.SortFunc(targets, func(a, b etcd.Target) int { return strings.Compare(a.Name, b.Name) })
	return targets
}

// Unregistered returns further targets: members that have started on machines
// whose Node is not registered yet. kubeadm lets etcd join before the kubelet,
// and a voter that cannot be asked counts as failed.
func (o *View) Unregistered(survey etcd.Survey, to Dial, known []etcd.Target) []etcd.Target {
	var targets []etcd.Target
	matched := o.Match(survey.Members)
	for _, member := range survey.Members {
		if member.Name == "" || slices.ContainsFunc(known, func(t etcd.Target) bool { return t.Name == member.Name }) {
			continue
		}
		name := matched.Hosts[member.ID]
		for _, m := range o.Machines {
			if m.Name == name && m.Facts.Host == "" {
				targets = append(targets, to(member.Name, machine.InternalIP(m.Machine)))
			}
		}
	}
	return targets
}

// Ask asks all members that can be asked. last is what they said before. It takes
// about 2 s when one does not answer, half a second when it did not the last time either, twice that when one is met
// for the first time besides.
func (o *View) Ask(ctx context.Context, quorum Surveyor, to Dial, last etcd.Survey) etcd.Survey {
	targets := o.Targets(to)
	targets = append(targets, o.Unregistered(last, to, targets)...)
	if len(targets) == 0 {
		return etcd.Survey{Why: "no machine is known on which a member could be asked"}
	}
	survey := quorum.Survey(ctx, targets)
	if more := o.Unregistered(survey, to, targets); len(more) > 0 {
		survey = quorum.Survey(ctx, append(targets, more...))
	}
	return survey
}
