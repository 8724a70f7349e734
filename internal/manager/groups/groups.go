// Package groups sets up the controllers of the kinds of groups of machines. It knows which kinds there are, and what each controller
// is started with.
package groups

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/quorate/quorate/internal/cluster/workload"
	"github.com/quorate/quorate/internal/group"
	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/kinds/etcdcluster"
	"github.com/quorate/quorate/internal/kinds/machines"
	"github.com/quorate/quorate/internal/kinds/stacked"
	"github.com/quorate/quorate/internal/program/untrusted"
	"github.com/quorate/quorate/internal/upgrade/upgraders"
)

// kinds are all kinds of groups, by their names.
var kinds = map[string]func() group.Kind{
	"KubeadmControlPlane": func() group.Kind { return stacked.New() },
	"ControlPlane":        func() group.Kind { return machines.New() },
	"EtcdCluster":         func() group.Kind { return etcdcluster.New() },
}

// types are those of their objects.
var types = sync.OnceValue(func() map[reflect.Type]bool {
	all := map[reflect.Type]bool{}
	for _, kind := range kinds {
		all[reflect.TypeOf(kind().New())] = true
	}
	return all
})

// IsGroup reports whether an object is a group, of whichever kind.
func IsGroup(object any) bool { return types()[reflect.TypeOf(object)] }

// All returns all kinds of groups.
func All() []group.Kind {
	var all []group.Kind
	for _, name := range slices.Sorted(maps.Keys(kinds)) {
		all = append(all, kinds[name]())
	}
	return all
}

// Observed returns all kinds of groups, as far as they are looked at.
func Observed() []observe.Kind {
	var all []observe.Kind
	for _, kind := range All() {
		all = append(all, kind)
	}
	return all
}

// Options are what the controllers have in common.
type Options struct {
	Controller controller.Options
	// WatchFilter and LeaveLabelled are as in group.Controller.
	WatchFilter   string
	LeaveLabelled bool
	// AtOnce is how many groups of a kind are worked on at the same time; those that wait for others than the management cluster are not
	// counted.
	AtOnce int
	// ForwardOnly: ports on machines are reached through the clusters' API servers alone.
	ForwardOnly bool
	// Bounds are what a managed cluster may answer.
	Bounds untrusted.Bounds
	// Upgraders finds the images that upgrade nodes in place.
	Upgraders upgraders.Images
}

// Add adds the controller of one kind, with connections of its own: each cluster's control plane is of one kind.
func Add(ctx context.Context, mgr ctrl.Manager, kind string, o Options) error {
	connections := workload.New(mgr.GetAPIReader(), workload.Options{ForwardOnly: o.ForwardOnly, Bounds: o.Bounds})
	if err := mgr.Add(connections); err != nil {
		return fmt.Errorf("adding the connections to workload clusters: %w", err)
	}
	return controllerOf(kind, mgr.GetClient(), mgr.GetAPIReader(), connections, o).SetupWithManager(ctx, mgr, o.Controller)
}

// controllerOf is the controller of one kind.
func controllerOf(kind string, c client.Client, api client.Reader, connections observe.Workloads, o Options) *group.Controller {
	return &group.Controller{
		Client: c, APIReader: api, Workload: connections, WatchFilter: o.WatchFilter,
		LeaveLabelled: o.LeaveLabelled, ForwardOnly: o.ForwardOnly, Kind: kinds[kind](), Slots: observe.NewSlots(o.AtOnce),
		Upgraders: &o.Upgraders,
	}
}
