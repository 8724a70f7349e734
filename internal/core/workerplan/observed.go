package workerplan

import (
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// Observed is everything that a decision may depend on. It is plain data.
type Observed struct {
	// Policy is the user's.
	Policy plan.InPlace
	// Held says who holds the upgrade; empty: nothing does.
	Held string
	// OnDelete: Cluster API leaves machines that are behind until they are deleted. Otherwise it replaces them by itself.
	OnDelete bool
	// Version is the wanted one of Kubernetes.
	Version string
	// MaxUnavailable is how many machines may be away at once, those that are away for other reasons included.
	MaxUnavailable int
	// ControlPlane says why the control plane goes first; empty: it is there.
	ControlPlane string
	// NoUpgrader says which image is missing to update machines in place, and how to set it. Empty: none is missing.
	NoUpgrader string
	// Sets are the MachineSets that have machines, sorted by name.
	Sets []Set
	// Machines are the MachineDeployment's, the oldest first, then by name.
	Machines []Machine
}

// Set is a MachineSet.
type Set struct {
	Name string
	// Version is the one that its new machines get.
	Version string
	// Differs says what else of its template is not as wanted, so that its machines can only be replaced; empty: nothing.
	Differs string
}

// Machine is one machine.
type Machine struct {
	Name string
	// Set is the MachineSet that controls it.
	Set     string
	Created time.Time
	// Version is what its Machine says.
	Version string
	// Unfit says why it cannot be brought to the wanted version in place; empty: it can.
	Unfit string
	// Unavailable says why it does not serve; empty: it does.
	Unavailable string
	Deleting    bool
	// Update is how far its upgrade is, and Message what that says. Obsolete: it is for another version than the wanted one.
	Update   Update
	Message  string
	Obsolete bool
}

// Update is how far the upgrade of a machine is.
type Update string

// The values of Update.
const (
	NoUpdate Update = ""
	Underway Update = "Underway"
	Done     Update = "Done"
	Failed   Update = "Failed"
)
