package check

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// isOfRecovery reports whether a step belongs to a recovery by a seed, and to nothing else.
func isOfRecovery(s plan.Step) bool {
	return s.Verb == plan.BeginRecovery || s.Verb == plan.EndRecovery || s.Verb == plan.GiveUp || s.Seed
}

// checkRecovery allows the steps of a recovery, and no others while it lasts. A person has approved the seed and the machines that are
// given up; no old voter can answer when the seed is planted.
func checkRecovery(o plan.Observed, s plan.Step) error {
	r := o.Recovery
	switch {
	case r.Seed == "" || r.Approved.IsZero():
		return errors.New("a recovery with a seed is not approved")
	case !ours(o.Etcd):
		return errors.New("etcd does not run on these machines")
	case r.Begun == (s.Verb == plan.BeginRecovery):
		return fmt.Errorf("recovery %s is begun: %t", r.Name, r.Begun)
	}
	switch s.Verb {
	case plan.BeginRecovery:
		return checkBeginRecovery(o)
	case plan.GiveUp:
		return checkGiveUp(o, s)
	case plan.Create:
		return checkSeed(o, s)
	case plan.EndRecovery:
		return checkEndRecovery(o)
	case plan.Write:
		return checkRecoveryWrite(o, s)
	case plan.MoveLeader, plan.RemoveMember:
		return checkDismissed(o, s)
	}
	return fmt.Errorf("%s: not a step of a recovery", action(s))
}

// checkBeginRecovery: what etcd still holds is given up only where no quorum is left, and a person named every machine.
func checkBeginRecovery(o plan.Observed) error {
	if age := o.Now.Sub(o.Recovery.Approved); age >= 15*time.Minute {
		return fmt.Errorf("the approval is %s old", age)
	}
	if alive, all := ballot(o, ""); 2*alive > all {
		return fmt.Errorf("etcd has a quorum: %d of %d voters are healthy", alive, all)
	}
	if o.Cluster.Reachable && !o.Policy.EtcdOnly {
		return errors.New("an API server answers: etcd has a quorum")
	}
	if len(o.Uncontrolled) > 0 {
		return fmt.Errorf("%s is not the group's: it may hold data", o.Uncontrolled[0].Name)
	}
	for _, m := range o.Machines {
		if !slices.Contains(o.Recovery.GiveUp, m.Name) {
			return fmt.Errorf("%s is not given up", m.Name)
		}
	}
	return checkVoters(o)
}

// checkVoters: every voter that has a name is on a machine of the group, or a person named it.
func checkVoters(o plan.Observed) error {
	for _, e := range o.Etcd.Members {
		_, err := machineNamed(o, e.Machine)
		if err != nil && !e.Learner && e.Name != "" && !slices.Contains(o.Recovery.GiveUp, e.Name) {
			return fmt.Errorf("voter %s has no machine, and is not given up", e.Name)
		}
	}
	return nil
}

// checkGiveUp: only a machine that a person named goes, or one that was seeded and that a person deleted.
func checkGiveUp(o plan.Observed, s plan.Step) error {
	m, err := machineNamed(o, s.Machine)
	switch {
	case err != nil:
		return err
	case m.Seeded && !m.Deleting:
		return fmt.Errorf("%s was made by the seed", m.Name)
	case !m.Seeded && !slices.Contains(o.Recovery.GiveUp, m.Name):
		return fmt.Errorf("%s is not given up", m.Name)
	}
	return nil
}

// checkRecoveryWrite: beside a recovery only what shows the cluster is written: the kubeconfig, and, into the cluster that the seed
// began, what lets etcd be asked.
func checkRecoveryWrite(o plan.Observed, s plan.Step) error {
	if isOfClients(o, s) || hasSeeded(o) && isBeforeJoin(o, s) && !isOfSpec(o, s) {
		return checkWrite(o, s)
	}
	return fmt.Errorf("%s: not a step of a recovery", action(s))
}

// checkSeed: no old voter may answer beside the cluster that the seed begins, and there is one such cluster only.
func checkSeed(o plan.Observed, s plan.Step) error {
	switch {
	case !s.Seed || !s.Init || s.Hold:
		return errors.New("only a machine that restores the seed is made in a recovery")
	case isRefused(o.Want) && !o.Want.Refused.Replaceable:
		return fmt.Errorf("the spec is refused (%s): no machine can be made", o.Want.Refused.Reason)
	}
	for _, m := range o.Machines {
		switch {
		case m.Name == s.Machine:
			return fmt.Errorf("%s exists", m.Name)
		case !m.Deleting || m.Hook:
			return fmt.Errorf("%s stays beside the seed", m.Name)
		case !m.Gone && !slices.Contains(o.Recovery.Off, m.Name):
			return fmt.Errorf("%s may still answer", m.Name)
		}
	}
	if len(o.Uncontrolled) > 0 {
		return fmt.Errorf("%s is not the group's: it may answer", o.Uncontrolled[0].Name)
	}
	return errors.Join(checkSilence(o), checkName(o, s.Machine), checkSurroundings(o))
}

// checkSilence: no API server has served at the endpoint for a minute, and nothing has answered there for a moment. Machines of etcd alone
// have no endpoint.
func checkSilence(o plan.Observed) error {
	if o.Policy.EtcdOnly {
		return nil
	}
	if o.Cluster.Reachable {
		return errors.New("an API server answers: another cluster would begin beside its own")
	}
	failing, silent := lasted(o, o.Cluster.FailingSince), lasted(o, o.Cluster.SilentSince)
	if failing < time.Minute || silent < 10*time.Second {
		return fmt.Errorf("the endpoint has been silent for %s, and has not served for %s: another cluster may run there", silent, failing)
	}
	return nil
}

// lasted is for how long something has been so; 0: it is not.
func lasted(o plan.Observed, since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return o.Now.Sub(since)
}

// checkEndRecovery: the seeded machine answers, and its member is a majority.
func checkEndRecovery(o plan.Observed) error {
	if err := checkFacts(o); err != nil {
		return err
	}
	for _, m := range o.Machines {
		if m.Seeded && !m.Deleting && isWhole(o, m) {
			return nil
		}
	}
	return errors.New("no machine serves from the seed")
}

// checkDismissed: of the etcd that the seed began only a member leaves, or hands over, that is on a machine that was given up, or a learner
// on no known machine.
func checkDismissed(o plan.Observed, s plan.Step) error {
	leaves := slices.ContainsFunc(o.Etcd.Members, func(e plan.Member) bool {
		if s.Verb == plan.MoveLeader {
			return e.Leader && isOfGivenUp(o, e)
		}
		return e.ID == s.Member && isOfGivenUp(o, e)
	})
	if !leaves || !hasSeeded(o) {
		return fmt.Errorf("%s: not a step of a recovery", action(s))
	}
	return checkStep(o, s)
}

// isOfGivenUp reports whether a member is on a machine that nothing holds any more, or is a learner on no known machine.
func isOfGivenUp(o plan.Observed, e plan.Member) bool {
	if on, err := machineNamed(o, e.Machine); err == nil {
		return isReleased(on)
	}
	return e.Learner
}

// hasSeeded reports whether the machine that restores the seed is there, and stays.
func hasSeeded(o plan.Observed) bool {
	return slices.ContainsFunc(o.Machines, func(m plan.Machine) bool { return m.Seeded && !m.Deleting })
}
