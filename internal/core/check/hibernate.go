package check

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// isOfHibernation reports whether a step belongs to a hibernation, or is taken while its machines go or are gone.
func isOfHibernation(o plan.Observed, s plan.Step) bool {
	switch s.Verb {
	case plan.BeginHibernation, plan.Hibernate, plan.Wake, plan.EndHibernation:
		return true
	}
	return o.Power.Backup != "" && !o.Recovery.Begun && s.Verb != plan.BeginRecovery
}

// checkHibernation allows the steps of a hibernation, and no others once its machines go.
func checkHibernation(o plan.Observed, s plan.Step) error {
	if !ours(o.Etcd) {
		return errors.New("etcd does not run on these machines: nothing could wake")
	}
	p := o.Power
	switch s.Verb {
	case plan.BeginHibernation:
		return checkToHibernate(o)
	case plan.Hibernate:
		return checkHibernate(o)
	case plan.GiveUp:
		return checkLetGo(o, s)
	case plan.Wake:
		return checkWake(o)
	case plan.EndHibernation:
		if p.Hibernate || p.Backup != "" || p.Requested.IsZero() && !p.Woken {
			return errors.New("the group hibernates, or did not")
		}
		return nil
	}
	if isOfClients(o, s) {
		return checkWrite(o, s)
	}
	return fmt.Errorf("%s: not a step for a group that hibernates", action(s))
}

// checkToHibernate: the user wants the group to hibernate, and none of its machines was let go.
func checkToHibernate(o plan.Observed) error {
	if p := o.Power; !p.Hibernate || p.Refused != "" || p.Backup != "" || o.Recovery.Begun {
		return errors.New("the group is not to hibernate now")
	}
	return nil
}

// checkHibernate: all machines may go, and all data with them, only once a verified backup has the data of a cluster whose workers are
// gone, and while its etcd is well.
func checkHibernate(o plan.Observed) error {
	p, b := o.Power, o.Group.Backup
	if err := checkToHibernate(o); err != nil {
		return err
	}
	switch {
	case !o.Group.Initialized:
		return errors.New("no cluster was initialised: nothing could wake")
	case p.Requested.IsZero() || len(p.Running) > 0 || len(o.Workers) > 0:
		return errors.New("workers still need the machines")
	case len(o.Uncontrolled) > 0:
		return fmt.Errorf("%s is not the group's: it may hold data", o.Uncontrolled[0].Name)
	case b.Name == "" || !b.Required.After(p.Requested) || b.Taken.Before(b.Required) || b.Taken.Sub(o.Now) > time.Minute:
		return errors.New("no verified backup was taken since the workers are gone: the data would be lost")
	}
	return checkFacts(o)
}

// checkLetGo: no machine goes without the backup from which the group wakes, taken since the hibernation was requested.
func checkLetGo(o plan.Observed, s plan.Step) error {
	p := o.Power
	if _, err := machineNamed(o, s.Machine); err != nil {
		return err
	}
	if p.Requested.IsZero() || p.Taken.Before(p.Requested) {
		return fmt.Errorf("%s would go without a backup of the hibernation", s.Machine)
	}
	return nil
}

// checkWake: another cluster is begun from the backup only when all machines have left.
func checkWake(o plan.Observed) error {
	switch p := o.Power; {
	case p.Backup == "" || p.Hibernate:
		return errors.New("the group is not to wake")
	case o.Recovery.Name != "":
		return fmt.Errorf("recovery %s is requested already", o.Recovery.Name)
	case slices.ContainsFunc(o.Machines, func(m plan.Machine) bool { return !isReleased(m) }):
		return errors.New("a machine of the group has not left")
	}
	return nil
}

// needsToHibernate: a group on its way into hibernation needs a backup that is asked for after its workers are gone.
func needsToHibernate(o plan.Observed) bool {
	p := o.Power
	return p.Hibernate && !p.Requested.IsZero() && !o.Group.Backup.Required.After(p.Requested) && len(o.Workers)+len(p.Running) == 0
}

// checkNothingBegun: for a group that is to hibernate nothing is begun: no machine comes, and none goes for the spec or for a repair.
func checkNothingBegun(o plan.Observed, s plan.Step) error {
	if !o.Power.Hibernate {
		return nil
	}
	on, _ := machineNamed(o, s.Machine)
	switch s.Verb {
	case plan.Create, plan.StartBootstrap, plan.Delete, plan.EnableDowngrade:
	case plan.UpdateInPlace:
		if on.Update.Unfinished {
			return nil
		}
	default:
		return nil
	}
	return fmt.Errorf("%s, and the group is to hibernate", action(s))
}
