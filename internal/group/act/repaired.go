package act

import (
	"context"

	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

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
