package manager

import (
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// ownShutdown is how long Quorate's own controllers may take to end, as a part of the time that all have.
const ownShutdown = 5 * time.Second

// beside returns a manager for Quorate's own controllers that runs as a part of another one, as somebody else: what they
// need and have not been granted fails on a single host as it would in a management cluster. Webhooks, metrics and
// probes are the other manager's.
func beside(mgr ctrl.Manager, o Options) (ctrl.Manager, error) {
	limit := ownShutdown
	own, err := New(o.Embedded.Own, ctrl.Options{
		Logger: mgr.GetLogger(), Metrics: metricsserver.Options{BindAddress: "0"}, GracefulShutdownTimeout: &limit,
	}, o)
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(manager.RunnableFunc(own.Start)); err != nil {
		return nil, fmt.Errorf("adding Quorate's own controllers: %w", err)
	}
	return own, nil
}
