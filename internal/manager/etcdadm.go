package manager

import (
	"context"

	"github.com/quorate/quorate/internal/kinds/etcdadm/provider"
)

func addEtcdadmConfig(_ context.Context, p *parts) error {
	return (&provider.Controller{
		Client: p.mgr.GetClient(), APIReader: p.mgr.GetAPIReader(), WatchFilter: p.opts.WatchFilter,
	}).SetupWithManager(p.mgr, p.opts.Controller())
}
