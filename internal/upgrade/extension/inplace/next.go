package inplace

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/version"
)

// Machine is what of a Machine decides about its update.
type Machine struct {
	Name, Version string
	ControlPlane  bool
	// Updating: Cluster API has marked it, all that belongs to it says what is wanted, and the update is not reported as done.
	Updating bool
	Deleting bool
}

// Upgrade is what of a NodeUpgrade of the machine decides about its update.
type Upgrade struct {
	Name string
	// Ours: it was made for an update of this machine by Cluster API, and not for the upgrade of a whole control plane by Quorate.
	Ours bool
	// Begun: the node may be changed already.
	Begun, Completed, Failed, Deleting bool
	// Recorded: the objects of the machine told of it before, and may have changed since.
	Recorded bool
	// Message says how far it is, or why it failed and what to do.
	Message string
}

// ended: it changes nothing any more, unless a person asks for it.
func (u Upgrade) ended() bool { return u.Completed || u.Failed }

// Facts are all that Next decides by.
type Facts struct {
	// Requested is the version that the request names. The one of the Machine counts.
	Requested string
	// Machine is nil where there is none.
	Machine *Machine
	// Others are the other control plane machines of its cluster.
	Others []Machine
	// Wanted is the name of the NodeUpgrade that brings the machine to what it says now.
	Wanted string
	// Upgrades are all NodeUpgrades of the machine.
	Upgrades []Upgrade
}

// Verb is what is to be done.
type Verb string

// The values of Verb.
const (
	// Wait: nothing is to be done now; the caller asks again.
	Wait Verb = "Wait"
	// Make a NodeUpgrade.
	Make Verb = "Make"
	// Remove a NodeUpgrade that is not wanted any more.
	Remove Verb = "Remove"
	// Done: the node runs what its Machine says.
	Done Verb = "Done"
	// Failed: a person has to look at it.
	Failed Verb = "Failed"
)

// Decision is the next step of the update of one machine.
type Decision struct {
	Verb Verb
	// Upgrade is the name of the NodeUpgrade to make or to remove.
	Upgrade string
	// First: the machine is the first of its control plane with this version.
	First bool
	// Message is for people.
	Message string
}

// Next decides the next step of the update of one machine.
func Next(f Facts) Decision {
	m := f.Machine
	switch {
	case m == nil:
		return Decision{Verb: Failed, Message: "there is no such Machine"}
	case m.Deleting:
		return wait("Machine %s is being deleted: its node is not upgraded any more", m.Name)
	case m.Version != f.Requested:
		return wait("Machine %s says version %s, and the request says %s: it is out of date", m.Name, m.Version, f.Requested)
	case !m.Updating:
		return wait("Machine %s, or its KubeadmConfig, is not marked for an update in place", m.Name)
	}
	wanted, obsolete := f.sort()
	if obsolete != nil {
		return *obsolete
	}
	switch {
	case wanted == nil:
		return f.begin()
	case wanted.Deleting:
		return wait("NodeUpgrade %s is being deleted, and is made again afterwards", wanted.Name)
	case wanted.Recorded && !wanted.Ours:
		return Decision{Verb: Remove, Upgrade: wanted.Name, Message: fmt.Sprintf("NodeUpgrade %s is of an earlier time, and is made again",
			wanted.Name)}
	case wanted.Completed:
		return Decision{Verb: Done, Message: fmt.Sprintf("the node runs %s", m.Version)}
	case wanted.Failed:
		return Decision{Verb: Failed, Message: fmt.Sprintf("NodeUpgrade %s failed: %s. To try again, run `quorate upgrade retry`, or delete "+
			"NodeUpgrade %s",
			wanted.Name, cmp.Or(wanted.Message, "it does not say why"), wanted.Name)}
	}
	return wait("NodeUpgrade %s: %s", wanted.Name, cmp.Or(wanted.Message, "it has not begun"))
}

func wait(format string, args ...any) Decision {
	return Decision{Verb: Wait, Message: fmt.Sprintf(format, args...)}
}

// sort finds the wanted upgrade, and says what comes before it because of others. Those that ended are removed, also completed ones: when
// the machine returns to what it was before, that is another upgrade, and no old record may say that it is done. One that changes the node
// is not cut off.
func (f Facts) sort() (wanted *Upgrade, first *Decision) {
	for i := range f.Upgrades {
		u := &f.Upgrades[i]
		var d Decision
		switch {
		case u.Name == f.Wanted:
			wanted = u
			continue
		case u.Deleting:
			d = wait("NodeUpgrade %s is being deleted", u.Name)
		case u.Ours && (u.ended() || !u.Begun):
			d = Decision{Verb: Remove, Upgrade: u.Name, Message: fmt.Sprintf("NodeUpgrade %s is for something else than what is wanted now", u.Name)}
		case u.ended():
			continue
		default:
			d = wait("NodeUpgrade %s, which is for something else than what is wanted now, is finished first: %s", u.Name,
				cmp.Or(u.Message, "it has not begun"))
		}
		if first == nil {
			first = &d
		}
	}
	return wanted, first
}

// begin decides whether the machine's upgrade can be made. A kubelet must not be newer than the API server that it talks to, so workers
// come last.
func (f Facts) begin() Decision {
	if f.Machine.ControlPlane {
		return Decision{Verb: Make, Upgrade: f.Wanted, First: f.isFirst(), Message: "the upgrade of the node is about to begin"}
	}
	for _, o := range f.Others {
		if o.Updating || older(o.Version, f.Machine.Version) {
			return wait("worker %s waits for control plane machine %s, which does not run %s yet", f.Machine.Name, o.Name, f.Machine.Version)
		}
	}
	return Decision{Verb: Make, Upgrade: f.Wanted, Message: "the upgrade of the node is about to begin"}
}

// isFirst reports whether no other machine of the control plane runs the wanted version.
func (f Facts) isFirst() bool {
	for _, o := range f.Others {
		if o.Version == f.Machine.Version && !o.Updating {
			return false
		}
	}
	return true
}

// older reports whether a version comes before another. What cannot be read does not.
func older(a, b string) bool {
	was, err := version.Parse(a)
	if err != nil {
		return false
	}
	want, err := version.Parse(b)
	return err == nil && version.Compare(was, want) < 0
}

// longestPrefix is how many bytes of a machine's name are in the name of its NodeUpgrade: what is made for it has longer names.
const longestPrefix = 180

// UpgradeName is the name of the NodeUpgrade that brings a machine to a version and, on a control plane, to what its KubeadmConfig's
// clusterConfiguration says. The same wish has the same name, so that it is made once however often it is requested; what is not brought to
// the node has no part in it, as providers fill it in.
func UpgradeName(machine, version string, of bootstrapv1.ClusterConfiguration) string {
	goal := drift.NewGoal(version, of, clusterv1.ContractVersionedObjectReference{}).Hash()
	if len(machine) > longestPrefix {
		sum := sha256.Sum256([]byte(machine))
		machine = machine[:longestPrefix] + "-" + hex.EncodeToString(sum[:4])
	}
	return machine + "-" + goal
}
