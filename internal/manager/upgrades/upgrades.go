// Package upgrades sets up the controllers of upgrades in place. It knows what each is started with.
package upgrades

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/quorate/quorate/internal/upgrade/nodeupgrade"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
	"github.com/quorate/quorate/internal/upgrade/workerupgrade"
)

// Images finds upgrader images for a manager: in ConfigMaps, or else the image of its flag.
func Images(mgr ctrl.Manager, flag string) upgraders.Images {
	return upgraders.Images{Reader: mgr.GetAPIReader(), Namespace: upgraders.OwnNamespace(), Default: flag}
}

// Options are what the controllers have in common.
type Options struct {
	Controller controller.Options
	// WatchFilter is the value of Cluster API's watch-filter label; empty: everything is looked at.
	WatchFilter string
	// Upgraders finds the images of the upgrader.
	Upgraders upgraders.Images
}

// AddNodes adds the controller of NodeUpgrades.
func AddNodes(mgr ctrl.Manager, o Options) error {
	return (&nodeupgrade.Controller{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), WatchFilter: o.WatchFilter,
		Upgraders: o.Upgraders,
	}).SetupWithManager(mgr, o.Controller)
}

// AddWorkers adds the controller of MachineDeployments whose machines are upgraded in place.
func AddWorkers(mgr ctrl.Manager, o Options) error {
	return (&workerupgrade.Controller{Client: mgr.GetClient(), WatchFilter: o.WatchFilter, Upgraders: &o.Upgraders}).SetupWithManager(mgr,
		o.Controller)
}

// OwnNamespace returns the namespace of the pod that this process runs in. It returns "" outside of a pod.
func OwnNamespace() string { return upgraders.OwnNamespace() }
