package manager

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/stacked"
	"github.com/quorate/quorate/internal/workload"
)

func addStacked(ctx context.Context, p *parts) error {
	connections := workload.New(p.own.GetAPIReader(), workload.Options{ForwardOnly: p.opts.EtcdForwardOnly})
	if err := p.own.Add(connections); err != nil {
		return fmt.Errorf("adding the connections to workload clusters: %w", err)
	}
	return (&group.Controller{
		Client: p.own.GetClient(), APIReader: p.own.GetAPIReader(), Workload: connections, WatchFilter: p.opts.WatchFilter,
		LeaveLabelled: p.opts.Embedded != nil, Kind: stacked.New(),
	}).SetupWithManager(ctx, p.own, p.controller())
}
