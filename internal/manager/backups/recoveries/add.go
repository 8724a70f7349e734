package recoveries

import (
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/quorate/quorate/internal/group/observe"
	"github.com/quorate/quorate/internal/manager/backups"
)

// Settings are what an administrator says of backups and recoveries.
type Settings = backups.Settings

// Add adds the controllers of the backups of all kinds of groups, those of recoveries, with which they share stores and limits, and those
// of the stores.
func Add(mgr ctrl.Manager, kinds []observe.Kind, s Settings, o backups.Options) error {
	for _, kind := range kinds {
		if err := backups.Add(mgr, kind, o); err != nil {
			return err
		}
	}
	if err := backups.AddStores(mgr, kinds, o); err != nil {
		return err
	}
	seeded := slices.DeleteFunc(slices.Clone(kinds), func(k observe.Kind) bool { return !k.Type().Seeds })
	c := &Controller{Options: o, Kinds: seeded, Address: s.SeedAddress}
	if err := c.SetupWithManager(mgr); err != nil {
		return err
	}
	if s.SeedAddress == "" {
		return nil
	}
	return mgr.Add(&Server{Controller: c, Bind: s.SeedBind})
}
