package act

import (
	"context"
	"errors"
)

// ownTemplate makes the Cluster an owner of the template that the spec names, once that was read.
func (t upkeep) ownTemplate(ctx context.Context) error {
	if template := t.Memory.Template; template.Object != nil && t.Cluster.UID != "" {
		return t.OwnTemplate(ctx, template.Object)
	}
	return nil
}

// Keep writes what follows the group without a step: who owns the machine template, what the
// machines carry, whose the cluster's secrets are, when certificates expire, and the health check.
func (t *Writer) Keep(ctx context.Context) error {
	kind := t.performer.Steps()
	if kind.End != nil {
		if err := kind.End.TakeDown(ctx, t); err != nil {
			return err
		}
	}
	if t.Facts.Group.Deleting || len(t.Facts.Uncontrolled) > 0 {
		return nil
	}
	if err := (upkeep{t}).ownTemplate(ctx); err != nil {
		return err
	}
	if err := (upkeep{t}).propagate(ctx); err != nil {
		return err
	}
	return errors.Join(kind.Sync(ctx, t), upkeep{t}.healthCheck(ctx), updating{t}.syncUpdates(ctx))
}
