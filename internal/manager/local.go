package manager

import (
	"context"

	"github.com/quorate/quorate/internal/local"
)

// Embedded is what the management plane of a single host needs beyond Quorate's own controllers.
type Embedded struct {
	// Local is what the local provider makes machines with.
	Local local.Options
}

func addLocal(ctx context.Context, p *parts) error {
	o := p.opts.Embedded.Local
	if p.clusters != nil {
		o.Workload = p.clusters.GetUncachedClient
	}
	return local.Setup(ctx, p.mgr, o, p.controller())
}
