package provider

import (
	"fmt"

	infrav1 "github.com/quorate/quorate/api/infrastructure/v1alpha1"
	"github.com/quorate/quorate/internal/local/sandbox"
)

// A machine on this host is its LocalMachine's, and not that of whatever LocalMachine has its name. After a backup of the management
// cluster was restored, a new LocalMachine may be called as a machine that lives. The machine has the UID of the LocalMachine that it was
// made for on record. A move gives a LocalMachine another UID, and keeps its annotations: one of them is the UID that the LocalMachine had
// when its machine was made.

// owns reports whether a machine on this host was made for a LocalMachine. Of machines that releases made that recorded no owner, it is
// those that were reported to the LocalMachine: its provider ID is written only then.
func owns(lm *infrav1.LocalMachine, s *sandbox.Status) bool {
	if s.Owner == "" {
		return lm.Spec.ProviderID == providerID(lm.Name)
	}
	return s.Owner == string(lm.UID) || s.Owner == lm.Annotations[infrav1.OwnerAnnotation]
}

// ownedBy returns the spec of a machine that a LocalMachine owns with its owner on record.
func ownedBy(lm *infrav1.LocalMachine, spec sandbox.Spec) sandbox.Spec {
	if spec.Owner == "" {
		spec.Owner = string(lm.UID)
	}
	return spec
}

// othersProblem is why a LocalMachine has no machine: one that was made for another has its name. That is left alone.
func othersProblem(lm *infrav1.LocalMachine, of owner, s *sandbox.Status) *problem {
	other := fmt.Sprintf("a machine of cluster %s is called %s; names of machines are unique on a host", s.Cluster, lm.Name)
	if s.Cluster == sandboxCluster(of.cluster) {
		other = fmt.Sprintf("machine %s of this host was made for the LocalMachine with UID %q, and this one has UID %q: the machine is left "+
			"alone. Delete Machine %s: its successor gets another name", lm.Name, s.Owner, lm.UID, of.machine.Name)
	}
	return &problem{infrav1.NameInUseReason, other}
}
