package manager

import (
	"context"

	"github.com/quorate/quorate/internal/kinds/etcdadm/provider"
	"github.com/quorate/quorate/internal/manager/groups"
)

func addEtcdadmConfig(_ context.Context, p *parts) error {
	return (&provider.Controller{
		Client: p.mgr.GetClient(), APIReader: p.mgr.GetAPIReader(), WatchFilter: p.opts.WatchFilter,
	}).SetupWithManager(p.mgr, p.opts.Controller())
}

func addEtcdadmCluster(_ context.Context, p *parts) error {
	return groups.AddTakeover(p.mgr, p.opts.WatchFilter, p.opts.Controller())
}
