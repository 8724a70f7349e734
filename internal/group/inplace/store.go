// Package inplace reads and writes the objects by which machines of a group are upgraded in place, in the management cluster. What they say
// and which are made is known to package updates.
package inplace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	upgradev1 "github.com/quorate/quorate/api/upgrade/v1alpha1"
	"github.com/quorate/quorate/internal/core/drift"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/steps"
	"github.com/quorate/quorate/internal/upgrade/updates"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=nodeupgrades,verbs=list;watch;create;patch;delete
// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=controlplaneupgrades,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=controlplaneupgrades/status,verbs=patch
// +kubebuilder:rbac:groups=upgrade.cluster.x-k8s.io,resources=controlplaneupgrades/finalizers,verbs=update

// NeededAnnotation on a control plane tells others that its machines are to be upgraded in place.
const NeededAnnotation = upgradev1.NeededAnnotation

type (
	// Seen are the upgrades of one cluster.
	Seen = updates.Seen
	// Group is what the upgrades of a control plane's machines have in common.
	Group = updates.Group
	// Machine is how one machine of a control plane is.
	Machine = updates.Machine
	// Upgraders finds the images that upgrade nodes.
	Upgraders = upgraders.Images
	// NodeUpgrade is the upgrade of one machine.
	NodeUpgrade = upgradev1.NodeUpgrade
)

// Fact is what a decision may know of a machine's NodeUpgrade; nil: it has none. goal is what is wanted now.
func Fact(u *NodeUpgrade, goal drift.Goal) plan.Update { return updates.Fact(u, goal) }

// Drain is how the nodes of a control plane are drained before they are upgraded in place.
func Drain(given controlplanev1.InPlaceDrainSpec) upgradev1.DrainSpec {
	return upgradev1.DrainSpec{Policy: upgradev1.DrainPolicy(given.Policy), TimeoutSeconds: given.TimeoutSeconds}
}

// DrainText says the same in words. only: the cluster has no other node.
func DrainText(given controlplanev1.InPlaceDrainSpec, only bool) string {
	return updates.DrainText(Drain(given), only)
}

// IsDrainedOtherwise reports whether a NodeUpgrade failed before its node was changed, and does not drain the node as is wanted now.
func IsDrainedOtherwise(u *NodeUpgrade, wanted controlplanev1.InPlaceDrainSpec) bool {
	return updates.IsDrainedOtherwise(u, Drain(wanted))
}

// UnfitRuntime says why a node with a container runtime cannot be upgraded in place; empty: it can be.
func UnfitRuntime(said string) string { return steps.UnfitRuntime(said) }

// Changed reports whether a node that is not upgraded may run something else than before.
func Changed(u *NodeUpgrade) bool { return updates.Changed(u) }

// Writer writes objects of upgrades: Merge and MergeStatus what differs from what was before, whatever others have written meanwhile;
// Delete an object of that very UID, and, unchanged, of that very version.
type Writer interface {
	Create(ctx context.Context, o client.Object) error
	Merge(ctx context.Context, before, after client.Object) error
	MergeStatus(ctx context.Context, before, after client.Object) error
	Delete(ctx context.Context, o client.Object, unchanged bool) error
}

// Store reaches the objects of one cluster's upgrades. Cache reads what is watched, and APIReader from the API server. To writes; nil:
// nothing is written.
type Store struct {
	Cache, APIReader client.Reader
	To               Writer
	// Namespace and Cluster are those of the Cluster.
	Namespace, Cluster string
	// Owner is the control plane.
	Owner metav1.Object
}

func (s Store) selected() []client.ListOption {
	return []client.ListOption{client.InNamespace(s.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: s.Cluster}}
}

// Read reads the upgrades that the control plane believes.
func (s Store) Read(ctx context.Context) (Seen, error) {
	nodes, err := s.nodes(ctx, s.Cache)
	if err != nil {
		return Seen{}, err
	}
	var groups upgradev1.ControlPlaneUpgradeList
	if err := s.Cache.List(ctx, &groups, s.selected()...); err != nil {
		return Seen{}, fmt.Errorf("listing the ControlPlaneUpgrades of cluster %s: %w", s.Cluster, err)
	}
	return Seen{Nodes: nodes, Groups: updates.Owned(groups.Items, s.Owner)}, nil
}

func (s Store) nodes(ctx context.Context, reader client.Reader) ([]NodeUpgrade, error) {
	var list upgradev1.NodeUpgradeList
	if err := reader.List(ctx, &list, s.selected()...); err != nil {
		return nil, fmt.Errorf("listing the NodeUpgrades of cluster %s: %w", s.Cluster, err)
	}
	return list.Items, nil
}

// conflict ends a step that rests on what is no longer true.
func conflict(name, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: upgradev1.GroupVersion.Group, Resource: "nodeupgrades"}, name, errors.New(why))
}

// Begin begins the upgrade of one of the machines that are behind: its NodeUpgrade, which belongs to the ControlPlaneUpgrade of what is
// wanted now. all are the group's machines: of these no other may be under way, by the API server's own word, as a cache may not show an
// own write yet. Repeated, it does what is left.
func (s Store) Begin(ctx context.Context, g Group, all, behind []string, machine string, first bool) error {
	nodes, err := s.nodes(ctx, s.APIReader)
	if err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == machine })
	if u := underWay(nodes, others); u != nil {
		return conflict(u.Name, "another machine is being upgraded")
	}
	parent, err := s.ensureGroup(ctx, g, behind, machine)
	if err != nil {
		return err
	}
	made := g.NodeUpgrade(parent, machine, first)
	if i := slices.IndexFunc(nodes, func(u NodeUpgrade) bool { return u.Name == made.Name }); i >= 0 {
		return s.reuse(ctx, &nodes[i], machine)
	}
	err = s.To.Create(ctx, made)
	if apierrors.IsAlreadyExists(err) {
		return conflict(made.Name, "it was made in this moment")
	}
	if err != nil {
		return fmt.Errorf("creating NodeUpgrade %s: %w", made.Name, err)
	}
	return nil
}

// NoneUnderWay makes sure that none of some machines is being upgraded, by the API server's own word: else it is a conflict.
func (s Store) NoneUnderWay(ctx context.Context, machines []string) error {
	nodes, err := s.nodes(ctx, s.APIReader)
	if err != nil {
		return err
	}
	if u := underWay(nodes, machines); u != nil {
		return conflict(u.Name, "another machine is being upgraded")
	}
	return nil
}

// underWay is an upgrade of one of some machines that is not recorded yet; nil: there is none.
func underWay(nodes []NodeUpgrade, machines []string) *NodeUpgrade {
	for i := range nodes {
		if u := &nodes[i]; !updates.IsRecorded(u) && slices.Contains(machines, u.Spec.Machine.Name) {
			return u
		}
	}
	return nil
}

// ensureGroup returns the ControlPlaneUpgrade of a goal, and makes it where it is not there. One that was made for other machines, or is
// done, when the same was wanted before, makes room for another: its spec cannot be changed.
func (s Store) ensureGroup(ctx context.Context, g Group, behind []string, machine string) (*upgradev1.ControlPlaneUpgrade, error) {
	wanted := g.ControlPlaneUpgrade(behind)
	err := s.To.Create(ctx, wanted)
	if err == nil {
		return wanted, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("creating ControlPlaneUpgrade %s: %w", wanted.Name, err)
	}
	there := &upgradev1.ControlPlaneUpgrade{}
	if err := s.APIReader.Get(ctx, client.ObjectKeyFromObject(wanted), there); err != nil {
		return nil, fmt.Errorf("reading ControlPlaneUpgrade %s: %w", wanted.Name, err)
	}
	if !metav1.IsControlledBy(there, s.Owner) {
		return nil, fmt.Errorf("creating ControlPlaneUpgrade %s: the name is taken by one that does not belong to %s %s", wanted.Name, g.Ref.Kind,
			g.Name)
	}
	if !isOpenFor(there, machine) {
		return nil, s.makeRoom(ctx, there)
	}
	return there, nil
}

// isOpenFor reports whether a ControlPlaneUpgrade was made for a machine too, and is not done.
func isOpenFor(u *upgradev1.ControlPlaneUpgrade, machine string) bool {
	named := slices.ContainsFunc(u.Spec.MachinesRequireUpgrade, func(r upgradev1.MachineReference) bool { return r.Name == machine })
	return named && u.DeletionTimestamp.IsZero() && !ptr.Deref(u.Status.Ready, false)
}

// reuse takes a NodeUpgrade of the same name for the one that was to be made, unless its work was recorded before: then it makes room.
func (s Store) reuse(ctx context.Context, there *NodeUpgrade, machine string) error {
	if named := there.Spec.Machine.Name; named != machine {
		return fmt.Errorf("creating NodeUpgrade %s: the name is taken by one whose spec.machine is %q: must be %q; delete it", there.Name, named,
			machine)
	}
	if !updates.IsRecorded(there) && there.DeletionTimestamp.IsZero() {
		return nil
	}
	return s.makeRoom(ctx, there)
}

// makeRoom deletes an object in whose place another is to be made, and is a conflict: that is done when it is gone.
func (s Store) makeRoom(ctx context.Context, there client.Object) error {
	if err := s.Delete(ctx, there); err != nil {
		return err
	}
	return conflict(there.GetName(), "an earlier upgrade to the same goes first")
}

// Delete deletes an object of upgrades.
func (s Store) Delete(ctx context.Context, o client.Object) error {
	if err := s.To.Delete(ctx, o, false); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %T %s: %w", o, o.GetName(), err)
	}
	return nil
}

// MarkRecorded notes on a NodeUpgrade that its machine's objects tell of it, and returns it as it is then.
func (s Store) MarkRecorded(ctx context.Context, u *NodeUpgrade, now time.Time) (*NodeUpgrade, error) {
	after := u.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, upgradev1.RecordedAnnotation, now.UTC().Format(time.RFC3339))
	if err := s.To.Merge(ctx, u, after); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("noting on NodeUpgrade %s that it is recorded: %w", u.Name, err)
	}
	return after, nil
}

// Sync keeps the status of the ControlPlaneUpgrades that Read returned. What was wanted before and is done, or was never begun, is deleted.
func (s Store) Sync(ctx context.Context, seen Seen, g Group, machines []Machine, paused bool) error {
	for i := range seen.Groups {
		of := &seen.Groups[i]
		if !of.DeletionTimestamp.IsZero() {
			continue
		}
		var err error
		switch {
		case of.Labels[upgradev1.WantedLabel] == g.Goal.Hash():
			err = s.writeStatus(ctx, of, seen.Status(of, machines, paused))
		case !seen.HasOpen(of):
			err = s.Delete(ctx, of)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s Store) writeStatus(ctx context.Context, of *upgradev1.ControlPlaneUpgrade, status upgradev1.GroupUpgradeStatus) error {
	if equality.Semantic.DeepEqual(of.Status, status) {
		return nil
	}
	after := of.DeepCopy()
	after.Status = status
	if err := s.To.MergeStatus(ctx, of, after); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of ControlPlaneUpgrade %s: %w", of.Name, err)
	}
	return nil
}
