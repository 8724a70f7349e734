package plan

import "fmt"

// checkRefused: while the spec is refused, nothing is begun that it asks for. A machine
// that broke may be given up where it can be replaced, and be replaced.
func checkRefused(o Observed, s Step) error {
	r := o.Want.Refused
	if !o.Want.isRefused() {
		return nil
	}
	on, _ := machineNamed(o, s.Machine)
	replaces := r.Replaceable && o.Group.Initialized && o.Group.Repairing
	allowed := true
	switch s.Verb {
	case Delete:
		allowed = r.Replaceable && on.isMarked()
	case UpdateInPlace:
		allowed = on.Update.Unfinished
	case Create, StartBootstrap:
		allowed = replaces
	case Write:
		allowed = !isOfSpec(o, s) || replaces && isBeforeJoin(o, s)
	}
	if allowed {
		return nil
	}
	return fmt.Errorf("the spec is refused (%s): nothing may be begun", r.Reason)
}

// checkReplaceable: whatever is taken away by our own choice, so that fewer are left than
// wanted, can be replaced.
func checkReplaceable(o Observed) error {
	staying, held := 0, 0
	for _, m := range o.Machines {
		if !m.Deleting {
			staying++
		}
		if !m.Deleting && m.isHeld() {
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
