package act

import (
	"context"
	"slices"
	"strconv"
	"time"

	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// Note writes down on the group's object what the next turns, also of another controller, must find there, and takes off what has served.
func (t *Writer) Note(ctx context.Context, d plan.Decision) error {
	if err := t.recordInitialized(ctx); err != nil {
		return err
	}
	if err := t.recordNumber(ctx); err != nil {
		return err
	}
	if err := t.endRepair(ctx, d); err != nil {
		return err
	}
	return t.endApproval(ctx)
}

// recordInitialized writes down, where a move and a backup keep it, that a cluster was initialised.
func (t *Writer) recordInitialized(ctx context.Context) error {
	if _, recorded := t.Object.GetAnnotations()[controlplanev1.InitializedAnnotation]; recorded || !t.Facts.Group.Initialized ||
		t.Facts.Group.Deleting {
		return nil
	}
	return t.Annotate(ctx, map[string]string{controlplanev1.InitializedAnnotation: "true", controlplanev1.InitializingAnnotation: ""})
}

// recordNumber writes down the highest number that anything in the cluster has in its name, where that is higher than the one on record:
// the record is older than the cluster. What has the name may be removed before the next machine is made, and the name is not free for
// that.
func (t *Writer) recordNumber(ctx context.Context) error {
	highest := plan.HighestNumber(t.Facts)
	if !t.Facts.Group.Initialized || t.Facts.Group.Deleting || highest <= observe.LastMachine(t.Object.GetAnnotations()) {
		return nil
	}
	return t.Annotate(ctx, map[string]string{controlplanev1.LastMachineAnnotation: strconv.Itoa(highest)})
}

// endApproval takes an approval away that has served: all machines are as it was given for. What comes later, such as certificates that
// expire, needs another.
func (t *Writer) endApproval(ctx context.Context) error {
	o := t.Facts
	_, given := t.Object.GetAnnotations()[controlplanev1.ApprovedAnnotation]
	isBehind := func(m plan.Machine) bool { return m.Outdated != "" || m.Update != (plan.Update{}) }
	if !given || !observe.NeedsApproval(t.Spec.Approval) || o.Group.Deleting ||
		o.Group.Unapproved != "" || len(o.Machines) != o.Want.Replicas || slices.ContainsFunc(o.Machines, isBehind) {
		return nil
	}
	return t.Annotate(ctx, map[string]string{controlplanev1.ApprovedAnnotation: ""})
}

// requireBackup writes down that a verified backup is needed that is taken now or later.
func (t *Writer) requireBackup(ctx context.Context) error {
	return t.Annotate(ctx, map[string]string{controlplanev1.BackupRequiredAnnotation: t.Facts.Now.UTC().Format(time.RFC3339)})
}

// endRepair takes the note of a repair off the control plane once the repair is over. Create
// does so too, but its write may fail, or the process die before it.
func (t *Writer) endRepair(ctx context.Context, d plan.Decision) error {
	if !t.staleRepair(d) {
		return nil
	}
	return t.Annotate(ctx, map[string]string{upstream.RemediationInProgressAnnotation: ""})
}

// staleRepair reports whether the control plane notes a repair that is over: another machine
// was made for the one that was given up, or none is missing, nor will be made by a rollout. A note that cannot be read
// is stale; one that was written for the step just taken is not.
func (t *Writer) staleRepair(d plan.Decision) bool {
	if _, noted := t.Object.GetAnnotations()[upstream.RemediationInProgressAnnotation]; !noted || d.Step.Repair {
		return false
	}
	given := observe.ReplacementIn(t.Object.GetAnnotations(), upstream.RemediationInProgressAnnotation)
	if given == nil {
		return true
	}
	staying := 0
	for _, m := range t.Machines {
		if m.DeletionTimestamp.IsZero() {
			staying++
		}
		if isMadeFor(m, given) {
			return true
		}
	}
	wanted := t.Facts.Want.Replicas
	if t.rollsOutAfter(given) {
		wanted += t.Facts.Policy.Surge
	}
	return staying >= wanted
}

// isMadeFor reports whether a machine was made for one that was given up.
func isMadeFor(m *observe.Machine, given *observe.Replacement) bool {
	made := observe.ReplacementIn(m.Annotations, upstream.RemediationForAnnotation)
	return made != nil && made.Machine == given.Machine && made.Timestamp.Equal(&given.Timestamp)
}

// rollsOutAfter reports whether a rollout goes on after a repair: what was given up may have been the machine that it
// made, and the one that it makes next takes its place. Otherwise the limits of the repair would not hold for it.
func (t *Writer) rollsOutAfter(given *observe.Replacement) bool {
	outdated := false
	for _, m := range t.Machines {
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		if m.Name == given.Machine {
			return false
		}
		outdated = outdated || m.Facts.Outdated != ""
	}
	return outdated
}
