package steps

import (
	"fmt"
	"slices"
)

// Phase is how far the swap is. Each phase can be repeated: after any cut it is simply done again.
type Phase string

// The phases of the swap. Empty: it has not begun.
const (
	// Preparing: the new files are put beside those that they replace. Nothing is interrupted.
	Preparing Phase = "Preparing"
	// Stopping: the kubelet is stopped, and the containers of the static pods are ended.
	Stopping Phase = "Stopping"
	// Replacing: files take the places of those that they replace.
	Replacing Phase = "Replacing"
	// Starting: the kubelet is started.
	Starting Phase = "Starting"
	// Proving: it is awaited that all components serve at the new version.
	Proving Phase = "Proving"
	// Committed: they do. The swap is over.
	Committed Phase = "Committed"
	// Abandoned: it failed before anything was interrupted or replaced. The swap is over.
	Abandoned Phase = "Abandoned"
	// Reverting: the kubelet and the containers are stopped again, and the backup is put back.
	Reverting Phase = "Reverting"
	// Restarting: the old version is started, and it is awaited that it serves.
	Restarting Phase = "Restarting"
	// RestoringData: the only member of etcd does not serve at the old version, and gets its data from the snapshot.
	RestoringData Phase = "RestoringData"
	// Reverted: the old version serves. The swap is over.
	Reverted Phase = "Reverted"
	// Broken: neither version serves. The swap is over, and a person is needed.
	Broken Phase = "Broken"
)

// next is the phase after one that succeeded.
var next = map[Phase]Phase{
	"": Preparing, Preparing: Stopping, Stopping: Replacing, Replacing: Starting, Starting: Proving, Proving: Committed,
	Reverting: Restarting, RestoringData: Restarting, Restarting: Reverted,
}

// Forward reports whether the phase leads to the new version, and is not the end.
func (p Phase) Forward() bool {
	return slices.Contains([]Phase{Preparing, Stopping, Replacing, Starting, Proving}, p)
}

// Over reports whether nothing follows.
func (p Phase) Over() bool {
	return slices.Contains([]Phase{Committed, Abandoned, Reverted, Broken}, p)
}

// mostStarts is how often the service of the swap may begin, in each direction: what kills it again and again is the upgrade itself.
const mostStarts = 10

// Journal is what a node remembers of its upgrade: written before each phase of the swap begins.
type Journal struct {
	// Wanted is what the node is brought to.
	Wanted Wanted `json:"wanted"`
	// Phase is that which is under way, or the last one.
	Phase Phase `json:"phase,omitempty"`
	// Starts counts how often the service began, in this direction.
	Starts int `json:"starts,omitempty"`
	// Reason says why the new version did not stay.
	Reason string `json:"reason,omitempty"`
	// Reported is the attempt that reported the failure to its pod's owner; 0: none has.
	Reported int32 `json:"reported,omitempty"`
	// OnlyMember: no other member of etcd had a vote when the backup was taken, so that no other member keeps the data.
	OnlyMember bool `json:"onlyMember,omitempty"`
	// KubeletArgs are the names of arguments that an upgrade gave to the kubelet, sorted: of one that stayed, though its end may not have
	// been reported. They go, unless they are wanted.
	KubeletArgs []string `json:"kubeletArgs,omitempty"`
	// DataRestored: etcd's data came from the snapshot.
	DataRestored bool `json:"dataRestored,omitempty"`
	// FailedStep is the step after the swap whose failure is undone; empty: the swap's own, if any.
	FailedStep Name `json:"failedStep,omitempty"`
	// EtcdKept: the old etcd did not serve the data that the new one had written, so that the new one stays.
	EtcdKept bool `json:"etcdKept,omitempty"`
	// Verified: the node was healthy at the new version, so that the backup is removed, or being removed.
	Verified bool `json:"verified,omitempty"`
}

// Take returns the journal to go on with for an upgrade, given what the node remembers. An upgrade that has ended, and one whose failure
// was reported by an earlier attempt, begin again. An error: another upgrade is under way.
func (j Journal) Take(wanted Wanted) (Journal, error) {
	fresh := Journal{Wanted: wanted, KubeletArgs: j.givenArgs()}
	if j.Wanted.ID != wanted.ID {
		if j.Phase != "" && !j.Phase.Over() {
			return j, fmt.Errorf("upgrading node %s: another upgrade, to %s, is under way in phase %s", wanted.Node, j.Wanted.KubernetesVersion,
				j.Phase)
		}
		return fresh, nil
	}
	failed := j.Phase.Over() && j.Phase != Committed
	if failed && j.Reported != 0 && j.Reported != wanted.Attempt {
		return fresh, nil
	}
	j.Wanted = wanted
	return j, nil
}

// givenArgs are the names of arguments that the kubelet has from upgrades.
func (j Journal) givenArgs() []string {
	if j.Phase != Committed || j.Wanted.Kubelet.IsZero() {
		return j.KubeletArgs
	}
	var names []string
	for _, argument := range j.Wanted.Kubelet.ExtraArgs {
		names = append(names, argument.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Begun reports whether the swap has begun, so that what it works with must not be made again.
func (j Journal) Begun() bool { return j.Phase != "" }

// Resumed is the journal when the service of the swap begins, for the first time or again. The node may have been restarted meanwhile, and
// its kubelet may run: what needs it stopped begins with that again.
func (j Journal) Resumed() Journal {
	if j.Phase.Over() {
		return j
	}
	switch j.Phase {
	case "":
		j.Phase = Preparing
	case Replacing, Starting:
		j.Phase = Stopping
	case Restarting:
		j.Phase = Reverting
	}
	j.Starts++
	if j.Starts > mostStarts {
		return j.Failed(fmt.Sprintf("it was interrupted %d times", mostStarts))
	}
	return j
}

// Done is the journal after its phase succeeded.
func (j Journal) Done() Journal {
	if to, ok := next[j.Phase]; ok {
		j.Phase = to
	}
	return j
}

// Failed is the journal after its phase failed for a reason. The first reason is kept: what follows it may be its consequence.
func (j Journal) Failed(reason string) Journal {
	switch {
	case j.Phase.Over():
		return j
	case j.Phase == "" || j.Phase == Preparing:
		j.Phase, j.Reason = Abandoned, reason
	case j.Phase.Forward():
		j.Phase, j.Reason, j.Starts = Reverting, reason, 0
	case j.Starts > mostStarts:
		j.Phase, j.Reason = Broken, j.Reason+"; and going back: "+reason
	}
	return j
}

// Undo is the journal after a step that follows the swap failed for a reason, at its deadline: the node is put back, as if the swap itself
// had failed. False: nothing is undone, and the journal stays. That is so for steps that change nothing of the node, and where the backup
// is gone.
func (j Journal) Undo(failed Name, reason string) (Journal, bool) {
	step, _ := ByCommand(failed.Command())
	if step.Undo != UndoRestore || j.Phase != Committed || j.Verified {
		return j, false
	}
	j.Phase, j.FailedStep, j.Reason, j.Starts = Reverting, failed, reason, 0
	return j, true
}

// KeepsEtcd reports whether the new etcd stays when all else is put back.
func (j Journal) KeepsEtcd() bool { return j.EtcdKept && !j.DataRestored }

// NotServing is the journal when the old version was started again and does not serve. etcd's data are put back from the snapshot only
// where that can be the cause and loses the least: no member beside this one, and this one does not serve. Where the new version has
// served, so that its writes count, the new etcd is tried with the data before.
func (j Journal) NotServing(etcdServes bool, reason string) Journal {
	if j.Phase == Restarting && j.FailedStep != "" && j.Wanted.StackedEtcd && !etcdServes && !j.EtcdKept {
		j.Phase, j.EtcdKept = Reverting, true
		return j
	}
	if j.Phase == Restarting && j.OnlyMember && !etcdServes && !j.DataRestored {
		j.Phase, j.DataRestored = RestoringData, true
		return j
	}
	j.Starts = mostStarts + 1
	return j.Failed(reason)
}

// Outcome is what the swap reports when it is over.
func (j Journal) Outcome() Result {
	switch j.Phase {
	case Committed:
		return Result{State: Done, Message: "all components serve at " + j.Wanted.KubernetesVersion}
	case Abandoned:
		return Result{State: Failed, Message: j.Reason, Advice: "nothing was interrupted or replaced; retry when the cause is gone"}
	case Reverted:
		return Result{State: RolledBack, Message: j.Reason, FailedStep: j.FailedStep, Advice: "the node runs what it ran before, and " +
			j.data() + "; retry when the cause is gone"}
	case Broken:
		return Result{State: Failed, Message: j.Reason, FailedStep: j.FailedStep, Advice: "the node serves at neither version: look at the " +
			"logs of its kubelet and containers; the backup is kept on the node"}
	default:
		return Result{}
	}
}

// data says what became of etcd's data on the way back.
func (j Journal) data() string {
	switch {
	case j.DataRestored && j.FailedStep != "":
		return "etcd's data are those of the snapshot that was taken before; those with what was written since are kept beside them"
	case j.DataRestored:
		return "etcd's data are those of the snapshot that was taken before"
	case j.EtcdKept:
		return "etcd stays at its new version, which its data need, with all that was written"
	default:
		return "etcd kept its data"
	}
}
