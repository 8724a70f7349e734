package manager

import (
	"context"
	"fmt"

	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/machines"
	"github.com/quorate/quorate/internal/workload"
)

func addMachines(ctx context.Context, p *parts) error { return p.addKind(ctx, machines.New()) }

// addKind adds the controller of one kind of control planes, with connections of its own: each cluster is of one kind.
func (p *parts) addKind(ctx context.Context, kind group.Kind) error {
	connections := workload.New(p.own.GetAPIReader(), workload.Options{ForwardOnly: p.opts.EtcdForwardOnly})
	if err := p.own.Add(connections); err != nil {
		return fmt.Errorf("adding the connections to workload clusters: %w", err)
	}
	return (&group.Controller{
		Client: p.own.GetClient(), APIReader: p.own.GetAPIReader(), Workload: connections, WatchFilter: p.opts.WatchFilter,
		LeaveLabelled: p.opts.Embedded != nil, Kind: kind,
	}).SetupWithManager(ctx, p.own, p.controller())
}
