package check

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/internal/core/plan"
)

// checkWrite allows what is kept beside machines to be written: only what is not as it should be and what no other must do;
// what belongs in the cluster only while that answers.
func checkWrite(o plan.Observed, s plan.Step) error {
	for _, c := range o.Cluster.Chores {
		if c.Name != s.Chore || c.Blocked {
			continue
		}
		if c.Due == plan.DueFirst {
			return checkFirst(o)
		}
		if c.Inside {
			return checkInside(o)
		}
		return nil
	}
	return fmt.Errorf("%s is as it should be, or for somebody else to write", s.Chore)
}

// checkInside: the cluster answers, and takes writes.
func checkInside(o plan.Observed) error {
	for _, e := range o.Etcd.Members {
		if len(e.Alarms) > 0 {
			return fmt.Errorf("member %s raises %v: the cluster takes no writes", e.ID, e.Alarms)
		}
	}
	return checkReachable(o)
}

// checkFirst: what machines are made with is made before the first of them.
func checkFirst(o plan.Observed) error {
	if o.Group.Initialized {
		return errors.New("authorities are never made again for what was initialised with others")
	}
	if len(o.Machines) > 0 {
		return fmt.Errorf("%s was made with other authorities", o.Machines[0].Name)
	}
	return nil
}

// isOfSpec: the step writes what the spec asks for.
func isOfSpec(o plan.Observed, s plan.Step) bool {
	for _, c := range o.Cluster.Chores {
		if c.Name == s.Chore {
			return c.FromSpec
		}
	}
	return false
}

// isBeforeJoin: the step writes what a machine needs that joins.
func isBeforeJoin(o plan.Observed, s plan.Step) bool {
	for _, c := range o.Cluster.Chores {
		if c.Name == s.Chore {
			return c.Due == plan.DueJoin
		}
	}
	return false
}

// isOfClients: the step writes what clients need to reach the cluster, as the kubeconfig.
func isOfClients(o plan.Observed, s plan.Step) bool {
	for _, c := range o.Cluster.Chores {
		if c.Name == s.Chore {
			return c.Due == plan.DueNow
		}
	}
	return false
}

// barsJoins: what machines are made with is missing, or a person must mend what they need to join.
func barsJoins(c plan.Cluster) bool {
	for _, k := range c.Chores {
		if k.Due == plan.DueFirst || k.Due == plan.DueJoin && k.Blocked {
			return true
		}
	}
	return false
}

// checkJoinChores: what a machine relies on when it joins is as it should be.
func checkJoinChores(o plan.Observed) error {
	for _, c := range o.Cluster.Chores {
		if c.Due == plan.DueJoin && !c.FromSpec {
			return fmt.Errorf("%s: a machine that joins relies on it", c.Message)
		}
	}
	return nil
}
