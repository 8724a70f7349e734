package check

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// checkBackup refuses what begins a change of machines that need a backup first, without a verified one of this cluster that is young
// enough.
func checkBackup(o plan.Observed, what string) error {
	most, b := o.Policy.MaxBackupAge, o.Group.Backup
	if most == 0 || !ours(o.Etcd) || !b.Taken.Before(o.Now.Add(-most)) && !b.Taken.After(o.Now.Add(time.Minute)) {
		return nil
	}
	for _, m := range o.Machines {
		switch {
		case m.Deleting:
		case m.NeedsBackup != "":
			return fmt.Errorf("%s, and %s needs a verified backup first that is not older than %s: %s", what, m.Name, most, m.NeedsBackup)
		case o.Policy.BackupBeforeSingle && len(o.Machines) == 1 && checkChangeable(o, m) == nil:
			return fmt.Errorf("%s, and the only machine needs a verified backup first that is not older than %s", what, most)
		}
	}
	return nil
}

// checkLastBackup refuses what takes data of a group away that is being deleted and needs a last backup first.
func checkLastBackup(o plan.Observed) error {
	b := o.Group.Backup
	switch {
	case b.Last.IsZero() || !ours(o.Etcd), o.Power.Backup != "": // hibernation took one, and the machines are going
		return nil
	case b.Taken.Before(b.Last), b.Taken.Sub(o.Now) > time.Minute:
		return errors.New("the group needs a verified backup first that was taken since it is being deleted")
	}
	return nil
}

// checkRequest allows a backup to be asked for where one is needed.
func checkRequest(o plan.Observed) error {
	if needsToHibernate(o) {
		return nil
	}
	if err := checkApproved(o, "a backup would be taken before a change"); err != nil {
		return err
	}
	if checkBackup(o, "") == nil {
		return errors.New("no machine needs a backup first, or there is one that is young enough")
	}
	return nil
}
