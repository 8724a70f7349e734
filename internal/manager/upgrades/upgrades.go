// Package upgrades sets up the controllers of upgrades in place. It knows what each is started with.
package upgrades

import (
	"cmp"
	"os"
	"strings"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/quorate/quorate/internal/nodeupgrade"
	"github.com/quorate/quorate/internal/workerupgrade"
)

// DefaultUpgraderImage is the image that upgrades nodes in place to the version in place of %s.
const DefaultUpgraderImage = "quorate.io/upgrader:%s"

// ownNamespace is the file in which a pod finds the name of its namespace.
const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Options are what the controllers have in common.
type Options struct {
	Controller controller.Options
	// WatchFilter is the value of Cluster API's watch-filter label; empty: everything is looked at.
	WatchFilter string
	// UpgraderImage is the image, with %s for the version, where nothing else names one; empty: DefaultUpgraderImage.
	UpgraderImage string
}

// AddNodes adds the controller of NodeUpgrades.
func AddNodes(mgr ctrl.Manager, o Options) error {
	// Outside of a pod there is none, and only the namespaces of the NodeUpgrades themselves are looked at for images.
	namespace, _ := os.ReadFile(ownNamespace)
	return (&nodeupgrade.Controller{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), WatchFilter: o.WatchFilter,
		UpgraderImage: cmp.Or(o.UpgraderImage, DefaultUpgraderImage), Namespace: strings.TrimSpace(string(namespace)),
	}).SetupWithManager(mgr, o.Controller)
}

// AddWorkers adds the controller of MachineDeployments whose machines are upgraded in place.
func AddWorkers(mgr ctrl.Manager, o Options) error {
	return (&workerupgrade.Controller{Client: mgr.GetClient(), WatchFilter: o.WatchFilter}).SetupWithManager(mgr, o.Controller)
}
