package check

import (
	"fmt"

	"github.com/quorate/quorate/internal/core/plan"
)

// checkApproved refuses what begins a rollout, or an update in place, that a person has not approved, or outside of windows.
func checkApproved(o plan.Observed, what string) error {
	if o.Group.Unapproved == "" {
		return checkOpen(o, what)
	}
	return fmt.Errorf("%s, and an approval is missing for revision %s of the spec", what, o.Group.Unapproved)
}

// checkStays: while a rollout is not approved, or there is no backup for it, a machine that may have served, and that is not marked,
// goes only where others are enough.
func checkStays(o plan.Observed, gone plan.Machine, staying int) error {
	if staying >= o.Want.Replicas || isMarked(gone) || !hasCome(o, gone) {
		return nil
	}
	if err := checkBackup(o, gone.Name+" would be replaced"); err != nil {
		return err
	}
	return checkApproved(o, gone.Name+" would be replaced")
}

// checkLacking refuses what prepares a rollout that a person has not approved, or that the limit holds, unless machines are missing, which
// wait for no approval.
func checkLacking(o plan.Observed, what string) error {
	staying := 0
	for _, m := range o.Machines {
		if !m.Deleting {
			staying++
		}
	}
	if staying < o.Want.Replicas {
		return nil
	}
	if err := checkApproved(o, what); err != nil {
		return err
	}
	if err := checkBackup(o, what); err != nil {
		return err
	}
	return checkLimitLeft(o, what)
}
