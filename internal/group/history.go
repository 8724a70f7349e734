package group

import (
	"context"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/record"
)

// keepHistory adds to the history what was seen, and keeps it. After a step the next turn comes at once, and writes what both have
// to say, so that no step waits for it.
func (t *Turn) keepHistory(ctx context.Context, d plan.Decision, failure error) {
	if t.Facts.Group.Paused {
		return // others may be moving the object
	}
	t.past.history.Look(t.Facts, t.Assessed)
	if d.Step.Acts() && failure == nil {
		return
	}
	t.past.history.Keep(ctx, record.Group{
		Writer: t.Writer.Client, Reader: t.APIReader,
		Object: t.Object, Kind: t.Type.Kind, Cluster: t.Cluster.Name, Owner: t.OwnerRef(),
	}, t.Facts, t.Assessed)
}
