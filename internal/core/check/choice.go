package check

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/core/choice"
	"github.com/quorate/quorate/internal/core/plan"
)

// checkDropChoice allows only those decisions of a person to be forgotten that were done, or that are about other facts.
func checkDropChoice(o plan.Observed, s plan.Step) error {
	at := slices.IndexFunc(o.Choices, func(c plan.Choice) bool { return c.Digest == s.Choice })
	if at < 0 {
		return fmt.Errorf("there is no decision %s", s.Choice)
	}
	if err := checkFacts(o); err != nil {
		return err
	}
	c := o.Choices[at]
	if slices.ContainsFunc(o.Machines, func(m plan.Machine) bool { return isReleased(m) && isToForget(o, c, m) }) {
		return fmt.Errorf("the decision %s %s stands, and its Machine is there", c.Kind, c.Target)
	}
	o = withoutForgotten(o)
	if err := checkAside(o, s); err != nil {
		return err
	}
	if e, err := memberNamed(o, c.Target); err == nil && mayRemoveVoter(o, e) {
		return fmt.Errorf("the decision %s %s stands, and is not done", c.Kind, c.Target)
	}
	return nil
}

// mayRemoveVoter: a person decided, for these very facts, that a voter leaves, and it can be on no machine that stays.
func mayRemoveVoter(o plan.Observed, e plan.Member) bool {
	for _, c := range o.Choices {
		if c.Kind == plan.RemoveVoter && c.Target == e.ID && c.Digest == factsOf(o, plan.RemoveVoter, e.ID) {
			return isAdrift(o, e)
		}
	}
	return false
}

// factsOf names what a person's decision about a member rests on.
func factsOf(o plan.Observed, kind plan.ChoiceKind, member string) string {
	facts := choice.Facts{Kind: string(kind), Group: o.Group.Name, Target: member}
	for _, m := range o.Machines {
		facts.Machines = append(facts.Machines, m.Name)
	}
	for _, e := range o.Etcd.Members {
		if !e.Learner {
			facts.Voters = append(facts.Voters, e.ID)
		}
		if e.ID == member {
			facts.Name = e.Name
		}
	}
	return choice.Digest(facts)
}

// isForgotten: a person decided, of this very machine, that nothing waits for its infrastructure, or declared it off, and nothing is left
// to do there.
func isForgotten(o plan.Observed, m plan.Machine) bool {
	chosen := slices.ContainsFunc(o.Choices, func(c plan.Choice) bool { return isToForget(o, c, m) })
	return isForgettable(o, m) && (m.Off || chosen)
}

// isForgettable: a machine of a group that stays is being deleted, nothing holds it, no member is on it, and none can come.
func isForgettable(o plan.Observed, m plan.Machine) bool {
	if o.Group.Deleting || !o.Group.Initialized || ours(o.Etcd) && !o.Etcd.Known {
		return false
	}
	return isReleased(m) && !mayStillAdd(o, m) && len(membersOn(o, m.Name)) == 0
}

// isToForget: a decision says that nothing waits for the infrastructure of this very machine.
func isToForget(o plan.Observed, c plan.Choice, m plan.Machine) bool {
	facts := choice.Facts{Kind: string(plan.ForgetMachine), Group: o.Group.Name, Target: m.Name, Created: m.Created}
	return c.Kind == plan.ForgetMachine && c.Target == m.Name && c.Digest == choice.Digest(facts)
}

// withoutForgotten are the facts without the machines that nothing waits for any more. Their names stay taken.
func withoutForgotten(o plan.Observed) plan.Observed {
	rest := o
	rest.Machines, rest.Cluster.Names = nil, slices.Clone(o.Cluster.Names)
	for _, m := range o.Machines {
		if isForgotten(o, m) {
			rest.Cluster.Names = append(rest.Cluster.Names, m.Name)
		} else {
			rest.Machines = append(rest.Machines, m)
		}
	}
	return rest
}
