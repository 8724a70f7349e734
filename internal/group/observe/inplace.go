package observe

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/internal/cluster/machine"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/inplace"
)

// updates adds how far machines are that are changed in place.
type updates struct{ *Observer }

// Upgrades reaches the objects of the cluster's upgrades in place.
func (t *Observer) Upgrades() inplace.Store {
	return inplace.Store{Cache: t.Cache, APIReader: t.APIReader, Namespace: t.Object.GetNamespace(), Cluster: t.Cluster.Name, Owner: t.Object}
}

// UpdateGroup is what the upgrades of the group's machines have in common.
func (t *Observer) UpdateGroup() inplace.Group {
	kind := t.Type
	return inplace.Group{
		Namespace: t.Object.GetNamespace(), Name: t.Object.GetName(), Cluster: t.Cluster.Name,
		Ref:   clusterv1.ContractVersionedObjectReference{APIGroup: kind.Group, Kind: kind.Kind, Name: t.Object.GetName()},
		Owner: t.ControllerRef(), Goal: t.Own.Updates.Goal(t.View), Drain: inplace.Drain(t.Spec.Drain),
	}
}

// readUpdates reads the upgrades in place of the group's cluster. A machine that has no Node is not upgraded in place.
func (t updates) readUpdates(ctx context.Context) error {
	if t.Own.Updates == nil {
		return nil
	}
	var err error
	t.Updates, err = t.Upgrades().Read(ctx)
	t.Facts.Group.UpdatesPaused = t.Updates.IsPaused()
	return err
}

// addUpdate adds what of a machine's differences cannot be changed in place, how far its upgrade is, and what that has found out.
func (t updates) addUpdate(m *Machine) {
	if t.Own.Updates == nil {
		return
	}
	facts := m.Facts
	if u, ours := inplace.ExtensionFact(m.Machine); ours {
		facts.Update, facts.Updating = u, ""
		return
	}
	if t.Facts.Policy.InPlace != plan.InPlaceNever && !t.ByExtension() {
		facts.NeedsReplacement = Cut(t.needsReplacement(m), longestDrift)
	}
	found, noted := t.Updates.Verified(m.Name)
	machine.Answered(facts.Components, facts.Host, t.Inside.Pods, found, t.Facts.Now.Sub(noted))
	u := t.Updates.Of(m.Name)
	if u != nil {
		facts.Update = inplace.Fact(u, t.Own.Updates.Goal(t.View))
		facts.Update.Obsolete = facts.Update.Obsolete || t.ByExtension() || inplace.IsDrainedOtherwise(u, t.Spec.Drain)
	} else if t.isOnlyRecorded(m) {
		facts.Update = plan.Update{State: plan.UpdateDone, Message: "nothing is to be done on its node"}
	}
}

// needsReplacement says why not all of a machine's differences can be changed in place; empty: all can. On a node whose container runtime
// is not containerd, Quorate changes nothing.
func (t updates) needsReplacement(m *Machine) string {
	why := m.Drift.ReplacingText()
	if why != "" || !t.Facts.Policy.InPlace.Ours() || m.Node == nil || !m.Drift.OnNode() {
		return why
	}
	return inplace.UnfitRuntime(m.Node.Status.NodeInfo.ContainerRuntimeVersion)
}

// isOnlyRecorded reports whether a machine is outdated only in what no node knows of, such as the template of its infrastructure: its
// objects are to say what is wanted, and that is all.
func (t updates) isOnlyRecorded(m *Machine) bool {
	return t.Facts.Policy.InPlace.Ours() && !t.ByExtension() && m.Node != nil && m.Drift.Outdated() && !m.Drift.OnNode() && !m.Facts.Deleting
}
