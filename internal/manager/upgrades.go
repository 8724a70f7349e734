package manager

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/quorate/quorate/internal/manager/upgrades"
)

// addUpgrades returns how one of the controllers of upgrades in place is added.
func addUpgrades(add func(ctrl.Manager, upgrades.Options) error) func(context.Context, *parts) error {
	return func(_ context.Context, p *parts) error {
		return add(p.mgr, upgrades.Options{Controller: p.opts.Controller(), WatchFilter: p.opts.WatchFilter,
			Upgraders: upgrades.Images(p.mgr, p.opts.UpgraderImage)})
	}
}
