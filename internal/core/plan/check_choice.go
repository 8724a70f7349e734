package plan

import (
	"fmt"
	"slices"
)

// checkDropChoice allows only those decisions of a person to be forgotten that were done, or that are about other facts.
func checkDropChoice(o Observed, s Step) error {
	at := slices.IndexFunc(o.Choices, func(c Choice) bool { return c.Digest == s.Choice })
	if at < 0 {
		return fmt.Errorf("there is no decision %s", s.Choice)
	}
	if err := checkFacts(o); err != nil {
		return err
	}
	c := o.Choices[at]
	if e, err := memberNamed(o, c.Target); err == nil && mayRemoveVoter(o, e) {
		return fmt.Errorf("the decision %s %s stands, and is not done", c.Kind, c.Target)
	}
	return nil
}

// mayRemoveVoter: a person decided, for these very facts, that a voter leaves, and it can be on no machine that stays.
func mayRemoveVoter(o Observed, e Member) bool {
	for _, c := range o.Choices {
		if c.Kind == RemoveVoter && c.Target == e.ID && c.Digest == digest(o, RemoveVoter, e.ID) {
			return isAdrift(o, e)
		}
	}
	return false
}
