package manager

import (
	"context"

	"github.com/quorate/quorate/internal/etcdadm/provider"
)

func addEtcdadmConfig(_ context.Context, p *parts) error {
	return (&provider.Controller{
		Client: p.own.GetClient(), APIReader: p.own.GetAPIReader(), WatchFilter: p.opts.WatchFilter,
	}).SetupWithManager(p.own, p.controller())
}
