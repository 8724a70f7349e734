package manager

import (
	"context"

	"github.com/quorate/quorate/internal/manager/groups"
)

// addGroup returns how the controller of one kind of groups is added.
func addGroup(kind string) func(context.Context, *parts) error {
	return func(ctx context.Context, p *parts) error {
		return groups.Add(ctx, p.own, kind, groups.Options{
			Controller: p.controller(), AtOnce: p.atOnce(), WatchFilter: p.opts.WatchFilter, LeaveLabelled: p.opts.Embedded != nil, ForwardOnly: p.opts.EtcdForwardOnly,
		})
	}
}
