package manager

import (
	"context"

	"github.com/quorate/quorate/internal/manager/groups"
	"github.com/quorate/quorate/internal/manager/upgrades"
)

// addGroup returns how the controller of one kind of groups is added.
func addGroup(kind string) func(context.Context, *parts) error {
	return func(ctx context.Context, p *parts) error {
		return groups.Add(ctx, p.mgr, kind, groups.Options{
			Controller: p.opts.Controller(), AtOnce: p.opts.atOnce(), WatchFilter: p.opts.WatchFilter, LeaveLabelled: p.opts.LeaveLabelled,
			ForwardOnly: p.opts.EtcdForwardOnly,
			Bounds:      p.opts.Bounds, Upgraders: upgrades.Images(p.mgr, p.opts.UpgraderImage),
		})
	}
}
