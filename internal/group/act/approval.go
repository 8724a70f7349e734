package act

import (
	"context"
	"slices"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/core/plan"
)

// endApproval takes an approval away that has served: all machines are as it was given for. What comes later, such as certificates that expire, needs another.
func (t *Writer) endApproval(ctx context.Context) error {
	o := t.Facts
	_, given := t.Object.GetAnnotations()[controlplanev1.ApprovedAnnotation]
	isBehind := func(m plan.Machine) bool { return m.Outdated != "" || m.Update != (plan.Update{}) }
	if !given || !t.Spec.NeedsApproval || o.Group.Deleting || o.Group.Unapproved != "" || len(o.Machines) != o.Want.Replicas || slices.ContainsFunc(o.Machines, isBehind) {
		return nil
	}
	return t.Annotate(ctx, map[string]string{controlplanev1.ApprovedAnnotation: ""})
}
