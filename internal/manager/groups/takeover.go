package groups

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/quorate/quorate/internal/kinds/etcdcluster/takeover"
)

// AddTakeover adds the controller that takes etcd clusters of aws/etcdadm-controller over. A filter chooses by the label which objects it
// looks at.
func AddTakeover(mgr ctrl.Manager, watchFilter string, options controller.Options) error {
	return (&takeover.Controller{Client: mgr.GetClient(), WatchFilter: watchFilter}).SetupWithManager(mgr, options)
}
