package act

import (
	"context"
	"errors"

	"github.com/quorate/quorate/internal/core/plan"
)

// Note writes down on the group's object what the next turns, and whoever takes over, must find there, and takes off what has served.
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

// Keep writes what follows the group without a step: who owns the machine template, what the
// machines carry, whose the cluster's secrets are, when certificates expire, and the health check.
func (t *Writer) Keep(ctx context.Context) error {
	if err := t.performer.TakeDown(ctx, t); err != nil {
		return err
	}
	if t.Facts.Group.Deleting || len(t.Facts.Uncontrolled) > 0 {
		return nil
	}
	if template := t.Memory.Template; template.Object != nil && t.Cluster.UID != "" {
		if err := t.OwnTemplate(ctx, template.Object); err != nil {
			return err
		}
	}
	if err := (upkeep{t}).propagate(ctx); err != nil {
		return err
	}
	return errors.Join(t.performer.Sync(ctx, t), upkeep{t}.healthCheck(ctx), updating{t}.syncUpdates(ctx))
}
