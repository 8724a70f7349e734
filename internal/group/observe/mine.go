package observe

import (
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cluster/workload"
)

// Mine returns which Nodes may belong to the group's machines, or have a name that one of them could get.
func (t *View) Mine() workload.Mine {
	mine := Mine(slices.Concat(t.Objects(), t.Others)...)
	mine.Format = t.Facts.Want.NameFormat
	return mine
}

// Mine returns which Nodes may belong to machines: at least those that machine.Nodes finds for them.
func Mine(machines ...*clusterv1.Machine) workload.Mine {
	mine := workload.Mine{Names: map[string]bool{}, ProviderIDs: map[string]bool{}, Addresses: map[string]bool{}}
	for _, m := range machines {
		mine.Names[m.Name] = true
		if name := m.Status.NodeRef.Name; name != "" {
			mine.Names[name] = true
		}
		if m.Spec.ProviderID != "" {
			mine.ProviderIDs[m.Spec.ProviderID] = true
		}
		for _, a := range m.Status.Addresses {
			switch a.Type {
			case clusterv1.MachineHostName, clusterv1.MachineInternalDNS:
				mine.Names[a.Address] = true
			case clusterv1.MachineInternalIP:
				if address := workload.NormalAddress(a.Address); address != "" {
					mine.Addresses[address] = true
				}
			}
		}
	}
	return mine
}
