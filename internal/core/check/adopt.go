package check

import (
	"fmt"

	"github.com/quorate/quorate/internal/core/plan"
)

// checkAside: while machines of the control plane are not the group's, nothing is
// begun. They are adopted, or what is being deleted goes on.
func checkAside(o plan.Observed, s plan.Step) error {
	if len(o.Uncontrolled) == 0 {
		return nil
	}
	switch s.Verb {
	case plan.Adopt, plan.ReleaseHook, plan.RecordUpdate, plan.DropUpdate:
		return nil
	}
	going := 0
	for _, m := range o.Machines {
		if m.Deleting {
			going++
		}
	}
	if (s.Verb == plan.MoveLeader || s.Verb == plan.AddPlaceholder) && going > 0 {
		return nil
	}
	gone, _ := memberNamed(o, s.Member)
	if on, _ := machineNamed(o, gone.Machine); on.Deleting {
		return nil // its member is removed
	}
	return fmt.Errorf("%s is not the group's: nothing may be begun beside it", o.Uncontrolled[0].Name)
}

// checkAdopt allows a machine without a controller to be adopted, if all others can be.
func checkAdopt(o plan.Observed, s plan.Step) error {
	if o.Group.Deleting {
		return fmt.Errorf("the group is being deleted, and %s would be with it", s.Machine)
	}
	found := false
	for _, m := range o.Uncontrolled {
		if m.Against != "" {
			return fmt.Errorf("%s cannot be adopted: %s", m.Name, m.Against)
		}
		found = found || m.Name == s.Machine
	}
	if !found {
		return fmt.Errorf("there is no machine %s to be adopted", s.Machine)
	}
	return nil
}
