package stacked

import (
	"github.com/quorate/quorate/internal/etcd"
	"github.com/quorate/quorate/internal/machine"
)

// match says on which machine each member of etcd runs or will run.
func (s *scene) match(members []etcd.Member) etcd.Matching {
	hosts := make([]etcd.Host, len(s.machines))
	for i, m := range s.machines {
		hosts[i] = etcd.Host{
			Name:       m.Name,
			Node:       m.facts.Node,
			Registered: m.node != nil,
			Names:      machine.HostNames(m.Machine),
			Addresses:  machine.Addresses(m.Machine, m.node),
			Leaving:    !m.DeletionTimestamp.IsZero(),
		}
	}
	nodes := make([]string, len(s.view.Nodes))
	for i := range s.view.Nodes {
		nodes[i] = s.view.Nodes[i].Name
	}
	return etcd.Match(members, hosts, nodes)
}

// machineOf returns the name of the machine that one member runs or will run on.
func (s *scene) machineOf(m etcd.Member) string { return s.match([]etcd.Member{m}).Hosts[m.ID] }
