package manager

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/quorate/quorate/internal/local"
)

// Embedded is what the management plane of a single host needs beyond Quorate's own controllers.
type Embedded struct {
	// Own is how Quorate's own controllers reach the API server, as a user of theirs; nil: as all others do.
	Own *rest.Config
	// RuntimeExtensions has Cluster API's controllers call Runtime Extensions, and update machines in place by them. Off, nobody can register one.
	RuntimeExtensions bool
}

func addLocal(ctx context.Context, p *parts) error {
	o := *p.opts.Local
	if p.clusters != nil {
		o.Workload = p.clusters.GetUncachedClient
	}
	return local.Setup(ctx, p.mgr, o, p.controller())
}
