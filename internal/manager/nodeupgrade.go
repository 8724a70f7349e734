package manager

import (
	"cmp"
	"context"
	"os"
	"strings"

	"github.com/quorate/quorate/internal/nodeupgrade"
)

// DefaultUpgraderImage is the image that upgrades nodes in place to the version in place of %s.
const DefaultUpgraderImage = "quorate.io/upgrader:%s"

// ownNamespace is the file in which a pod finds the name of its namespace.
const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func addNodeUpgrade(_ context.Context, p *parts) error {
	// Outside of a pod there is none, and only the namespaces of the NodeUpgrades themselves are looked at for images.
	namespace, _ := os.ReadFile(ownNamespace)
	return (&nodeupgrade.Controller{
		Client: p.own.GetClient(), APIReader: p.own.GetAPIReader(), WatchFilter: p.opts.WatchFilter,
		UpgraderImage: cmp.Or(p.opts.UpgraderImage, DefaultUpgraderImage), Namespace: strings.TrimSpace(string(namespace)),
	}).SetupWithManager(p.own, p.controller())
}
