package check

import (
	"fmt"

	"github.com/quorate/quorate/internal/core/plan"
)

// checkRefused: while the spec is refused, nothing is begun that it asks for. A machine
// that broke may be given up where it can be replaced, and be replaced.
func checkRefused(o plan.Observed, s plan.Step) error {
	r := o.Want.Refused
	if !isRefused(o.Want) {
		return nil
	}
	on, _ := machineNamed(o, s.Machine)
	replaces := r.Replaceable && o.Group.Initialized && o.Group.Repairing
	allowed := true
	switch s.Verb {
	case plan.Delete:
		allowed = r.Replaceable && isMarked(on)
	case plan.UpdateInPlace:
		allowed = on.Update.Unfinished
	case plan.Create, plan.StartBootstrap:
		allowed = replaces
	case plan.Write:
		allowed = !isOfSpec(o, s) || replaces && isBeforeJoin(o, s)
	}
	if allowed {
		return nil
	}
	return fmt.Errorf("the spec is refused (%s): nothing may be begun", r.Reason)
}

// checkReplaceable: whatever is taken away by our own choice, so that fewer are left than
// wanted, can be replaced.
func checkReplaceable(o plan.Observed) error {
	staying, held := 0, 0
	for _, m := range o.Machines {
		if !m.Deleting {
			staying++
		}
		if !m.Deleting && isHeld(m) {
			held++
		}
	}
	if !o.Group.Initialized && staying == held {
		staying++ // the one that initialises is yet to come
	}
	if staying-1 >= o.Want.Replicas {
		return nil
	}
	if err := checkSurroundings(o); err != nil {
		return fmt.Errorf("nothing could take its place: %w", err)
	}
	return nil
}
