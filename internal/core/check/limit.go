package check

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// replacedLately counts the machines but one that the group notes as replaced in the 24 hours before now.
func replacedLately(o plan.Observed, but string) int {
	names := map[string]bool{}
	for _, r := range o.Group.Replacements {
		if r.Machine != but && o.Now.Sub(r.At) < 24*time.Hour {
			names[r.Machine] = true
		}
	}
	return len(names)
}

// checkLimit refuses one replacement, or update in place, more than the user allows in a day. machine is counted once, however often it is
// tried.
func checkLimit(o plan.Observed, machine, what string) error {
	most := o.Policy.MaxReplacements
	if most == 0 {
		return nil
	}
	if o.Group.ReplacementsUnreadable != "" {
		return fmt.Errorf("%s, and how many were replaced is not known: %s", what, o.Group.ReplacementsUnreadable)
	}
	if n := replacedLately(o, machine); n >= most {
		return fmt.Errorf("%s, and at most %d may be within 24 hours: %d were", what, most, n)
	}
	return nil
}

// checkLimitLeft refuses what prepares a rollout in which no machine may be replaced today. Without surge one may go on that is counted
// already.
func checkLimitLeft(o plan.Observed, what string) error {
	err := checkLimit(o, "", what)
	for _, m := range o.Machines {
		if o.Policy.Surge == 0 && isOutdated(m) && checkLimit(o, m.Name, what) == nil {
			return nil
		}
	}
	return err
}

// checkCounted: what replaces a machine that works, or may have, counts, and is within the limit. One that is more than wanted goes beyond
// it, too.
func checkCounted(o plan.Observed, s plan.Step, gone plan.Machine) error {
	what := gone.Name + " would be replaced"
	err := checkLimit(o, gone.Name, what)
	staying, _, _ := without(o, gone)
	readable := o.Group.ReplacementsUnreadable == ""
	switch {
	case s.Counts && staying >= o.Want.Replicas && readable:
		return nil
	case s.Counts:
		return err
	case o.Policy.MaxReplacements == 0 || isMarked(gone) || !isOutdated(gone) || !mayReplace(o, gone) || !hasCome(o, gone):
		return nil
	case staying < o.Want.Replicas && err != nil:
		return err
	case staying < o.Want.Replicas, staying == o.Want.Replicas && readable:
		return errors.New(what + ", and would not be counted")
	}
	return nil
}

// checkUpdateCounted: an update in place that begins is within the limit, and counts.
func checkUpdateCounted(o plan.Observed, s plan.Step) error {
	if o.Policy.MaxReplacements > 0 && !s.Counts {
		return errors.New(s.Machine + " would be changed in place, and would not be counted")
	}
	return checkLimit(o, s.Machine, s.Machine+" would be changed in place")
}
