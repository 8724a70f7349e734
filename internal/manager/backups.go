package manager

import (
	"context"

	"github.com/quorate/quorate/internal/manager/backups/recoveries"
	"github.com/quorate/quorate/internal/manager/groups"
	"github.com/quorate/quorate/internal/manager/upgrades"
)

// addBackups adds the controllers that take the backups of all kinds of groups, that prepare recoveries, and that keep stores which are in
// use. They share how many backups are taken at the same time.
func addBackups(_ context.Context, p *parts) error {
	o, err := p.opts.Backups.Options(p.mgr, p.opts.Controller(), p.opts.LeaveLabelled)
	if err != nil {
		return err
	}
	o.Stores.Namespace = upgrades.OwnNamespace()
	o.AllNamespaces = p.opts.Namespace == ""
	o.WatchFilter, o.LeaveLabelled, o.ForwardOnly = p.opts.WatchFilter, p.opts.LeaveLabelled, p.opts.EtcdForwardOnly
	return recoveries.Add(p.mgr, groups.Observed(), p.opts.Backups, o)
}
