// Package updates knows the objects by which machines of a control plane are upgraded in place. It knows which NodeUpgrade tells how far
// a machine is, which objects are made, what they were made for, and how far all machines are. It decides from values alone, and has no
// client and no clock. What happens on a node is known to packages upgradepod and steps, and when a machine's turn comes to package plan.
package updates

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/labels/format"

	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/upgrade/upgradepod"
)

// Seen are the upgrades that one control plane may be asked to believe.
type Seen struct {
	// Nodes are those of its cluster. A person may create them too.
	Nodes []upgradev1.NodeUpgrade
	// Groups are those that belong to the control plane: Owned chooses them.
	Groups []upgradev1.ControlPlaneUpgrade
}

// Owned returns those of some ControlPlaneUpgrades that an object controls, by its UID. A label and a name in a spec prove nothing.
// A user who may create a
// ControlPlaneUpgrade writes them, and must neither pause a control plane's upgrade with another object than its own, nor name what its
// machines were brought to.
func Owned(groups []upgradev1.ControlPlaneUpgrade, by metav1.Object) []upgradev1.ControlPlaneUpgrade {
	return slices.DeleteFunc(groups, func(u upgradev1.ControlPlaneUpgrade) bool { return !metav1.IsControlledBy(&u, by) })
}

// importance orders NodeUpgrades of one machine: what may happen on the node at any moment comes first, and what only waits for a person
// last.
var importance = map[upgradepod.State]int{upgradepod.Active: 0, upgradepod.Waiting: 1, upgradepod.Complete: 2, upgradepod.Failed: 3}

// Of returns the NodeUpgrade that tells how far a machine is; nil: there is none, or all are recorded.
func (s Seen) Of(machine string) *upgradev1.NodeUpgrade {
	var found []*upgradev1.NodeUpgrade
	for i := range s.Nodes {
		if u := &s.Nodes[i]; u.Spec.Machine.Name == machine && !IsRecorded(u) {
			found = append(found, u)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return slices.MinFunc(found, func(a, b *upgradev1.NodeUpgrade) int {
		return cmp.Or(importance[upgradepod.StateOf(a)]-importance[upgradepod.StateOf(b)], cmp.Compare(a.Name, b.Name))
	})
}

// Verified is when an upgrade of a machine found last that all components of its node answer their probes: found by the node's clock, noted
// by ours. Zero: none has.
func (s Seen) Verified(machine string) (found, noted time.Time) {
	for i := range s.Nodes {
		u := &s.Nodes[i]
		if u.Spec.Machine.Name != machine || upgradepod.StateOf(u) != upgradepod.Complete {
			continue
		}
		verify, completed := conditions.Get(u, string(steps.Verify)), conditions.Get(u, upgradev1.Completed)
		if verify != nil && completed != nil && verify.Status == metav1.ConditionTrue && verify.LastTransitionTime.After(found) {
			found, noted = verify.LastTransitionTime.Time, completed.LastTransitionTime.Time
		}
	}
	return found, noted
}

// IsRecorded reports whether a machine's objects tell of what a NodeUpgrade did.
func IsRecorded(u *upgradev1.NodeUpgrade) bool {
	_, recorded := u.Annotations[upgradev1.RecordedAnnotation]
	return recorded
}

// Fact is what a decision may know of a NodeUpgrade. goal is what is wanted now. Nil: there is none.
func Fact(u *upgradev1.NodeUpgrade, goal drift.Goal) plan.Update {
	if u == nil {
		return plan.Update{}
	}
	fact := plan.Update{Message: message(u), Obsolete: !isFor(u, goal)}
	switch upgradepod.StateOf(u) {
	case upgradepod.Complete:
		fact.State = plan.UpdateDone
	case upgradepod.Failed:
		fact.State, fact.Changed = plan.UpdateFailed, Changed(u)
		if !u.DeletionTimestamp.IsZero() {
			fact.State, fact.Changed, fact.Message = plan.UpdateUnderway, false, "NodeUpgrade "+u.Name+" is being deleted"
		}
	default:
		fact.State = plan.UpdateUnderway
	}
	return fact
}

// message is what a NodeUpgrade says of itself.
func message(u *upgradev1.NodeUpgrade) string {
	c := conditions.Get(u, upgradev1.Progressing)
	switch {
	case c == nil:
		return "it has not begun"
	case c.Message == "":
		return c.Reason
	case c.Reason == upgradev1.Running:
		return c.Message
	}
	return c.Reason + ": " + c.Message
}

// isFor reports whether a NodeUpgrade brings its machine to a goal. One that a person made says so by its version.
func isFor(u *upgradev1.NodeUpgrade, goal drift.Goal) bool {
	if wanted, labelled := u.Labels[upgradev1.WantedLabel]; labelled {
		return wanted == goal.Hash()
	}
	return u.Spec.KubernetesVersion == goal.Version
}

// Changed reports whether a node that is not upgraded may run something else than before: its swap was done, or it is not known how that
// ended.
func Changed(u *upgradev1.NodeUpgrade) bool {
	c := conditions.Get(u, string(steps.Swap))
	if c == nil {
		return false
	}
	switch c.Reason {
	case upgradev1.Pending, upgradev1.Failed, upgradev1.RolledBack:
		return false
	}
	return true
}

// name of what is made for a goal.
func name(of string, goal drift.Goal) string { return of + "-" + goal.Hash() }

// labels of what is made for a control plane.
func labels(cluster, controlPlane string, goal drift.Goal) map[string]string {
	return map[string]string{
		clusterv1.ClusterNameLabel:             cluster,
		clusterv1.MachineControlPlaneNameLabel: format.MustFormatValue(controlPlane),
		upgradev1.WantedLabel:                  goal.Hash(),
	}
}

// Group is what the upgrades of a control plane's machines have in common.
type Group struct {
	// Namespace, Name and Cluster are the control plane's and its Cluster's; Ref refers to it, and Owner makes it the controller.
	Namespace, Name, Cluster string
	Ref                      clusterv1.ContractVersionedObjectReference
	Owner                    metav1.OwnerReference
	// Goal is what its machines are brought to.
	Goal drift.Goal
	// Kubelet is what the goal says of the arguments of the kubelet of the machine that is next.
	Kubelet drift.KubeletArgs
	// Drain is how nodes are drained before.
	Drain upgradev1.DrainSpec
	// Files are those of the goal that the machine that is next does not have.
	Files []bootstrapv1.File
}

// ControlPlaneUpgrade returns the object that the upgrades of the machines belong to.
func (g Group) ControlPlaneUpgrade(machines []string) *upgradev1.ControlPlaneUpgrade {
	made := &upgradev1.ControlPlaneUpgrade{
		ObjectMeta: metav1.ObjectMeta{
			Name: name(g.Name, g.Goal), Namespace: g.Namespace, Labels: labels(g.Cluster, g.Name, g.Goal),
			OwnerReferences: []metav1.OwnerReference{g.Owner},
		},
		Spec: upgradev1.ControlPlaneUpgradeSpec{
			ControlPlane:         g.Ref,
			KubernetesVersion:    g.Goal.Version,
			EtcdVersion:          g.Goal.KubeadmConfig.ClusterConfiguration.Etcd.Local.ImageTag,
			ControlPlaneSpecData: g.Goal.String(),
		},
	}
	for _, m := range machines {
		made.Spec.MachinesRequireUpgrade = append(made.Spec.MachinesRequireUpgrade, upgradev1.MachineReference{Name: m})
	}
	return made
}

// NodeUpgrade returns the upgrade of one machine, which belongs to the one of the control plane. first: it is the first machine.
func (g Group) NodeUpgrade(parent *upgradev1.ControlPlaneUpgrade, machine string, first bool) *upgradev1.NodeUpgrade {
	owner := metav1.NewControllerRef(parent, upgradev1.GroupVersion.WithKind("ControlPlaneUpgrade"))
	made := &upgradev1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{
			Name: name(machine, g.Goal), Namespace: g.Namespace, Labels: labels(g.Cluster, g.Name, g.Goal),
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Spec: upgradev1.NodeUpgradeSpec{
			Machine:           upgradev1.MachineReference{Name: machine},
			KubernetesVersion: g.Goal.Version,
			EtcdVersion:       g.Goal.KubeadmConfig.ClusterConfiguration.Etcd.Local.ImageTag,
			NodeType:          upgradev1.ControlPlane,
			Kubelet:           kubelet(g.Kubelet),
			Drain:             g.Drain,
		},
	}
	for _, f := range g.Files {
		made.Spec.Files = append(made.Spec.Files, upgradev1.NodeUpgradeFile{Path: f.Path, Hash: drift.FileHash(f)})
	}
	if first {
		made.Spec.FirstNodeToBeUpgraded = ptr.To(true)
	}
	return made
}

// kubelet is what a NodeUpgrade says of the arguments of a kubelet.
func kubelet(args drift.KubeletArgs) upgradev1.NodeUpgradeKubelet {
	k := upgradev1.NodeUpgradeKubelet{RemovedArgs: args.Removed}
	for _, arg := range args.Extra {
		k.ExtraArgs = append(k.ExtraArgs, upgradev1.KubeletArgument{Name: arg.Name, Value: ptr.To(ptr.Deref(arg.Value, ""))})
	}
	return k
}

// GoalOf is what a NodeUpgrade brought its machine to: what is wanted now, or what its ControlPlaneUpgrade says. Of one that a person
// made only the version is known; whole is false then.
func (s Seen) GoalOf(u *upgradev1.NodeUpgrade, now drift.Goal) (goal drift.Goal, whole bool) {
	hash, labelled := u.Labels[upgradev1.WantedLabel]
	if labelled && hash == now.Hash() {
		return now, true
	}
	for _, parent := range s.Groups {
		if !labelled || !metav1.IsControlledBy(u, &parent) {
			continue
		}
		if goal, err := drift.ParseGoal(parent.Spec.ControlPlaneSpecData); err == nil && goal.Version == u.Spec.KubernetesVersion {
			return goal, true
		}
	}
	return drift.Goal{Version: u.Spec.KubernetesVersion}, false
}

// IsPaused reports whether a person holds the upgrade of the control plane between two of its nodes.
func (s Seen) IsPaused() bool {
	return slices.ContainsFunc(s.Groups, func(u upgradev1.ControlPlaneUpgrade) bool {
		_, paused := u.Annotations[clusterv1.PausedAnnotation]
		return paused
	})
}

// Machine is how one machine of a control plane is.
type Machine struct {
	Name string
	// Behind: its node is to be changed.
	Behind bool
}

// Status is how far an upgrade of a control plane is, with the machines that the control plane has now. Times are those of the status
// before.
func (s Seen) Status(of *upgradev1.ControlPlaneUpgrade, machines []Machine, paused bool) upgradev1.GroupUpgradeStatus {
	next := of.DeepCopy()
	st := &next.Status
	st.Failures, st.ObservedGeneration = nil, of.Generation
	require, upgraded := int64(0), int64(0)
	underway := ""
	for _, wanted := range of.Spec.MachinesRequireUpgrade {
		i := slices.IndexFunc(machines, func(m Machine) bool { return m.Name == wanted.Name })
		switch {
		case i < 0:
			continue // it is gone, and needs nothing any more
		case machines[i].Behind:
			require++
		default:
			upgraded++
		}
		u := s.Of(wanted.Name)
		if u == nil || !metav1.IsControlledBy(u, of) {
			continue
		}
		switch upgradepod.StateOf(u) {
		case upgradepod.Failed:
			st.Failures = append(st.Failures, upgradev1.NodeFailure{Machine: wanted.Name, Message: message(u)})
		case upgradepod.Active, upgradepod.Waiting:
			underway = wanted.Name + ": " + message(u)
		}
	}
	st.RequireUpgrade, st.Upgraded, st.Ready = ptr.To(require), ptr.To(upgraded), ptr.To(require == 0)
	describe(next, underway, paused)
	return *st
}

// describe writes the conditions of an upgrade whose numbers and failures are known. underway says how far the node is that is upgraded
// now; empty: none is.
func describe(next *upgradev1.ControlPlaneUpgrade, underway string, paused bool) {
	st, ready := &next.Status, *next.Status.Ready
	progress := metav1.Condition{Type: upgradev1.Progressing, Status: metav1.ConditionTrue, Reason: upgradev1.Running,
		Message: cmp.Or(underway, "between two nodes")}
	switch {
	case ready:
		progress.Status, progress.Reason, progress.Message = metav1.ConditionFalse, upgradev1.Done, ""
	case len(st.Failures) > 0:
		progress.Status, progress.Reason, progress.Message = metav1.ConditionFalse, upgradev1.Failed, st.Failures[0].Machine+": "+
			st.Failures[0].Message
	case paused && underway == "":
		progress.Status, progress.Reason, progress.Message = metav1.ConditionFalse, upgradev1.Paused, "a person holds it between two nodes"
	}
	completed := metav1.Condition{Type: upgradev1.Completed, Status: metav1.ConditionFalse, Reason: upgradev1.Progressing}
	if ready {
		completed.Status, completed.Reason = metav1.ConditionTrue, upgradev1.Done
	}
	conditions.Set(next, progress)
	conditions.Set(next, completed)
}

// HasOpen reports whether a NodeUpgrade that belongs to a ControlPlaneUpgrade is not recorded yet. One of a Machine that the
// ControlPlaneUpgrade does not name only claims to belong to it.
func (s Seen) HasOpen(of *upgradev1.ControlPlaneUpgrade) bool {
	return slices.ContainsFunc(s.Nodes, func(u upgradev1.NodeUpgrade) bool {
		return metav1.IsControlledBy(&u, of) && !IsRecorded(&u) && slices.Contains(of.Spec.MachinesRequireUpgrade, u.Spec.Machine)
	})
}
