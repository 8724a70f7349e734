package host

import (
	"context"

	"sigs.k8s.io/cluster-api/core/reconcilers/extensionconfig"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// addExtensionConfig adds the controller that finds out what Runtime Extensions serve, where any may be registered.
func addExtensionConfig(ctx context.Context, p *parts) error {
	if !p.opts.Embedded.RuntimeExtensions {
		return nil
	}
	return (&extensionconfig.Reconciler{
		Client: p.mgr.GetClient(), APIReader: p.mgr.GetAPIReader(), RuntimeClient: p.runtime, PartialSecretCache: p.metadata,
		WatchFilterValue: p.opts.WatchFilter,
	}).SetupWithManager(ctx, persistent{p.mgr}, p.opts.Controller())
}

// persistent is a manager in which what runs once at the start is tried until it succeeds. Upstream's first call of all Runtime Extensions
// ends the process after a minute when one of them does not answer. Here the API server would end with it, and a user could not remove
// the ExtensionConfig.
type persistent struct{ ctrl.Manager }

// Add adds what the controller of ExtensionConfigs consists of.
func (p persistent) Add(r manager.Runnable) error {
	if _, controls := r.(reconcile.Reconciler); controls {
		return p.Manager.Add(r)
	}
	return p.Manager.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for ctx.Err() == nil {
			err := r.Start(ctx)
			if err == nil {
				return nil
			}
			p.GetLogger().Error(err,
				"Runtime Extensions are asked again; until all answer, or their ExtensionConfigs are removed, no hook is called")
		}
		return nil
	}))
}
