package stacked

import (
	"errors"
	"sync"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/plan"
	"github.com/quorate/quorate/internal/workload"
)

// mineOf returns which Nodes may belong to machines: at least those that nodesOf finds for them.
func mineOf(machines ...*clusterv1.Machine) workload.Mine {
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

// mostKeyMakers is how many turns may make keys at the same time. RSA keys take a processor for up to a second, which
// all other turns would wait for.
const mostKeyMakers = 2

// errKeysWait ends a turn that would make keys while enough others do.
var errKeysWait = errors.New("enough keys are being made at the moment")

// makesKeys reports whether a step makes private keys.
func makesKeys(step plan.Step) bool {
	return step.Verb == plan.Generate || step.Verb == plan.WriteKubeconfig
}

// keyMakers counts the turns that make keys. The zero value is ready for use.
type keyMakers struct {
	mu  sync.Mutex
	now int
}

// begin reports whether another turn may make keys; end must follow then.
func (k *keyMakers) begin() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now >= mostKeyMakers {
		return false
	}
	k.now++
	return true
}

func (k *keyMakers) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now--
}
