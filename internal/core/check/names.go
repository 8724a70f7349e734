package check

import (
	"fmt"

	"github.com/quorate/quorate/internal/core/plan"
)

// checkName: a new machine has no name that anything in the cluster has.
func checkName(o plan.Observed, name string) error {
	for _, m := range o.Machines {
		if m.Host == name {
			return fmt.Errorf("%s is the name of the node on %s", name, m.Name)
		}
	}
	for _, m := range o.Etcd.Members {
		if m.Name == name {
			return fmt.Errorf("%s is the name of etcd member %s", name, m.ID)
		}
	}
	for _, list := range [][]string{o.Cluster.Names, o.Workers} {
		for _, used := range list {
			if used == name {
				return fmt.Errorf("%s is the name of another machine of the cluster", name)
			}
		}
	}
	return nil
}
