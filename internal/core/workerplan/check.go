package workerplan

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/core/plan"
)

// Check is the second key: it says why a step must not be taken, in its own words and without the rules of Next; nil: it may.
func Check(o Observed, step Step) error {
	if step.Verb != UpdateInPlace && step.Verb != Replace {
		return nil
	}
	at := slices.IndexFunc(o.Machines, func(m Machine) bool { return m.Name == step.Machine })
	if at < 0 {
		return fmt.Errorf("%s of %s: there is no such machine", step.Verb, step.Machine)
	}
	away := 0
	for i, m := range o.Machines {
		if i != at && (m.Deleting || m.Unavailable != "" || m.Update == Underway) {
			away++
		}
	}
	m := o.Machines[at]
	if err := checkAllowed(o, step, m); err != nil {
		return err
	}
	if m.Unavailable == "" && away >= o.MaxUnavailable {
		return fmt.Errorf("%s of %s: more than %d machines would be away", step.Verb, m.Name, o.MaxUnavailable)
	}
	return nil
}

// checkAllowed says why a machine must not be changed, however many others serve; nil: it may.
func checkAllowed(o Observed, step Step, m Machine) error {
	switch {
	case !o.Policy.Ours() || !o.OnDelete:
		return fmt.Errorf("%s of %s: its machines are changed by others", step.Verb, m.Name)
	case o.Held != "" || o.ControlPlane != "":
		return fmt.Errorf("%s of %s: no machine may be changed now", step.Verb, m.Name)
	case step.Verb == UpdateInPlace && o.NoUpgrader != "":
		return fmt.Errorf("%s of %s: %s", step.Verb, m.Name, o.NoUpgrader)
	case m.Deleting || m.Update != NoUpdate:
		return fmt.Errorf("%s of %s: it is being deleted or upgraded", step.Verb, m.Name)
	case step.Verb == Replace && o.Policy == plan.InPlaceOnly:
		return fmt.Errorf("%s of %s: with the policy %s no machine is replaced", step.Verb, m.Name, o.Policy)
	case step.Verb == UpdateInPlace && (m.Unavailable != "" || m.Version == o.Version):
		return fmt.Errorf("%s of %s: it does not serve, or has what is wanted", step.Verb, m.Name)
	}
	return nil
}
