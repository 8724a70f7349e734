package check

import (
	"errors"
	"fmt"

	"github.com/quorate/quorate/internal/core/plan"
)

// checkUpdate allows a machine to be updated in place that the policy and its differences let be, while no other is, all are
// whole, and the quorum is the others'.
func checkUpdate(o plan.Observed, s plan.Step) error {
	m, err := machineNamed(o, s.Machine)
	if err != nil {
		return err
	}
	if m.Update.Unfinished {
		return checkFinish(o, m)
	}
	if err := checkApproved(o, m.Name+" would be changed in place"); err != nil {
		return err
	}
	if err := checkBackup(o, m.Name+" would be changed in place"); err != nil {
		return err
	}
	if err := checkUpdateCounted(o, s); err != nil {
		return err
	}
	if err := checkChangeable(o, m); err != nil {
		return err
	}
	if err := checkFacts(o); err != nil {
		return err
	}
	if err := checkCompany(o, m); err != nil {
		return err
	}
	for _, c := range o.Cluster.Chores {
		if c.Due == plan.DueFirst || c.Due == plan.DueJoin {
			return fmt.Errorf("%s comes first: %s", c.Name, c.Message)
		}
	}
	for _, other := range o.Machines {
		if s.First && !isOutdated(other) {
			return fmt.Errorf("%s is not the first: %s is as wanted", m.Name, other.Name)
		}
	}
	return checkStandIns(o, m)
}

// checkFinish allows a beginning that was cut off to be made whole: the machine counts as updated already. None of another machine may be
// under way.
func checkFinish(o plan.Observed, m plan.Machine) error {
	other := beingUpdated(o, m.Name)
	switch {
	case m.Deleting || o.Group.Deleting:
		return fmt.Errorf("%s is leaving", m.Name)
	case other != "":
		return fmt.Errorf("%s is updated in place: one at a time", other)
	case !o.Cluster.Reachable:
		return checkReachable(o)
	case ours(o.Etcd) && (!o.Etcd.Known || !o.Etcd.Agreed):
		return errors.New("the members of etcd are not known, or disagree")
	case len(o.Machines) == 1 || !ours(o.Etcd):
		return nil
	}
	if alive, all := worst(o, "", m.Name); 2*alive <= all {
		return fmt.Errorf("without %s %d of %d voters would answer", m.Name, alive, all)
	}
	return nil
}

// checkChangeable: the user wants the machine to be changed in place, and it can be.
func checkChangeable(o plan.Observed, m plan.Machine) error {
	switch {
	case o.Group.Deleting:
		return errors.New("the group is being deleted: no machine is updated")
	case o.Group.UpdatesPaused:
		return errors.New("a person holds updates in place")
	case o.Group.NoUpgrader != "":
		return errors.New(o.Group.NoUpgrader)
	case !updatesInPlace(o.Policy):
		return fmt.Errorf("the policy %q updates no machine in place", o.Policy.InPlace)
	case o.Policy.EtcdOnly || operated(o.Etcd):
		return errors.New("machines of this kind are not updated in place")
	case !isOutdated(m):
		return fmt.Errorf("%s is as wanted", m.Name)
	case isUnanswered(m):
		return fmt.Errorf("it is not known whether %s can be changed in place: %s", m.Name, m.Unanswered)
	case needsReplacement(m):
		return fmt.Errorf("%s cannot be changed in place: %s", m.Name, m.NeedsReplacement)
	case !isUp(m):
		return fmt.Errorf("%s has no node to be updated", m.Name)
	}
	return nil
}

// checkCompany: nothing else is under way, and all others are whole, whatever the one is that is alone.
func checkCompany(o plan.Observed, updated plan.Machine) error {
	for _, m := range o.Machines {
		switch {
		case m.Update != plan.Update{}:
			return fmt.Errorf("the update of %s has not been seen to: one at a time", m.Name)
		case m.Updating != "":
			return fmt.Errorf("somebody else changes %s", m.Name)
		case m.Deleting:
			return fmt.Errorf("%s is leaving: one change at a time", m.Name)
		case len(o.Machines) == 1:
		case !isWhole(o, m) || !m.Ready || m.Gate != "" || isMarked(m):
			return fmt.Errorf("%s is not as healthy as all must be while %s is updated", m.Name, updated.Name)
		}
	}
	return nil
}

// checkStandIns: without the machine's voter the others are a majority, and none of them comes, goes or is on no known machine.
func checkStandIns(o plan.Observed, updated plan.Machine) error {
	if !ours(o.Etcd) {
		return nil
	}
	for _, e := range o.Etcd.Members {
		on, err := machineNamed(o, e.Machine)
		switch {
		case err != nil:
			return fmt.Errorf("member %s is on no known machine", e.ID)
		case e.Health != plan.Healthy || len(e.Alarms) > 0:
			return fmt.Errorf("member %s is not well", e.ID)
		case e.Leader && on.Name == updated.Name && len(o.Machines) > 1:
			return fmt.Errorf("member %s leads: it hands over first", e.ID)
		}
	}
	if all := len(o.Etcd.Members); len(o.Machines) > 1 && 2*(all-1) <= all {
		return fmt.Errorf("without %s %d of %d voters would answer", updated.Name, all-1, all)
	}
	return nil
}

// checkRecord allows an update that was done to be recorded.
func checkRecord(o plan.Observed, s plan.Step) error {
	m, err := machineNamed(o, s.Machine)
	if err == nil && m.Update.State != plan.UpdateDone {
		return fmt.Errorf("the update of %s is not done", m.Name)
	}
	return err
}

// checkDrop allows an update that failed to be forgotten when it is not wanted.
func checkDrop(o plan.Observed, s plan.Step) error {
	m, err := machineNamed(o, s.Machine)
	switch {
	case err != nil:
		return err
	case m.Update.State != plan.UpdateFailed:
		return fmt.Errorf("the update of %s has not failed", m.Name)
	case m.Update.Changed && !isOutdated(m):
		return fmt.Errorf("the update of %s has left the node as its objects do not say", m.Name)
	case !m.Update.Obsolete && checkChangeable(o, m) == nil:
		return fmt.Errorf("the update of %s is wanted: a person must see why it failed", m.Name)
	}
	return nil
}

// beingUpdated names another machine that is updated in place and that something holds; empty: there is none.
func beingUpdated(o plan.Observed, but string) string {
	for _, m := range o.Machines {
		if m.Name != but && isUpdating(m) {
			return m.Name
		}
	}
	return ""
}

// checkNobodyUpdated: no machine joins while a machine is updated in place, but where the beginning cannot be made whole before others are
// repaired.
func checkNobodyUpdated(o plan.Observed) error {
	if name := carriedOut(o, ""); name != "" {
		return fmt.Errorf("%s is updated in place: no member may be added", name)
	}
	return nil
}

// carriedOut names another machine whose update is carried out, or may be at any moment: all that are updated but those whose beginning is
// cut off and cannot be made whole before others are repaired. They serve meanwhile. Empty: there is none.
func carriedOut(o plan.Observed, but string) string {
	for _, m := range o.Machines {
		if m.Name != but && mayStop(o, m) {
			return m.Name
		}
	}
	return ""
}

// mayStop: what runs on a machine may stop at any moment, as the machine is updated in place. A beginning that is cut off, and cannot be
// made whole yet, stops nothing.
func mayStop(o plan.Observed, m plan.Machine) bool {
	return isUpdating(m) && (!m.Update.Unfinished || checkFinish(o, m) == nil)
}

// checkOnly: with the policy Only no machine goes but of more than are wanted, and those on which nothing was begun.
func checkOnly(o plan.Observed, gone plan.Machine) error {
	if isHeld(gone) {
		return nil
	}
	staying := 0
	for _, m := range o.Machines {
		if !m.Deleting {
			staying++
		}
	}
	if o.Policy.InPlace == plan.InPlaceOnly && staying <= o.Want.Replicas {
		return fmt.Errorf("%s is not replaced: the policy is %s", gone.Name, plan.InPlaceOnly)
	}
	return nil
}

// checkOfUpdate: steps of updates in place.
func checkOfUpdate(o plan.Observed, s plan.Step) error {
	switch s.Verb {
	case plan.RecordUpdate:
		return checkRecord(o, s)
	case plan.DropUpdate:
		return checkDrop(o, s)
	}
	return checkUpdate(o, s)
}
