package plan

import (
	"errors"
	"fmt"
	"time"
)

// checkMembersGo allows a machine to go with the members on it, of which there may be none.
func checkMembersGo(o Observed, gone Machine) error {
	for _, e := range o.Etcd.Members {
		if e.Machine != gone.Name {
			continue
		}
		if err := checkLeave(o, e); err != nil {
			return err
		}
	}
	for _, e := range o.Etcd.Members {
		if !mayBeOn(o, e, gone) {
			continue
		}
		if err := checkLeave(o, e); err != nil {
			return fmt.Errorf("it may hold voter %s: %w", e.ID, err)
		}
	}
	return nil
}

// mayVote: a voter is on the machine, or one that nobody has placed may be.
func mayVote(o Observed, m Machine) bool {
	for _, e := range o.Etcd.Members {
		if mayBeOn(o, e, m) {
			return true
		}
	}
	return votersOn(o, m.Name) > 0
}

// mayBeOn: the member is a voter that nobody has placed, and this may be its place. One
// that has started is named after its Node.
func mayBeOn(o Observed, e Member, m Machine) bool {
	if _, err := machineNamed(o, e.Machine); err == nil || e.Learner {
		return false
	}
	for _, on := range o.Etcd.Members {
		if on.Machine == m.Name {
			return false
		}
	}
	return m.Node == "" || e.Name == "" || e.Name == m.Node
}

// checkNoOrphan refuses to let a machine go that may hold a voter nobody has placed.
func checkNoOrphan(o Observed, gone Machine) error {
	for _, e := range o.Etcd.Members {
		if mayBeOn(o, e, gone) {
			return fmt.Errorf("voter %s is on no known machine: it may be on %s", e.ID, gone.Name)
		}
	}
	return nil
}

// checkNobodyLeaves: no voter is about to leave with its machine.
func checkNobodyLeaves(o Observed) error {
	for _, m := range o.Machines {
		if m.Deleting && mayVote(o, m) {
			return fmt.Errorf("%s is leaving, and its voter with it: one change at a time", m.Name)
		}
	}
	return nil
}

// checkLeave allows a member to leave: the others keep the quorum, a leader has
// handed over, and no other voter comes or goes.
func checkLeave(o Observed, gone Member) error {
	if gone.Learner {
		return nil
	}
	alive, all := ballot(o, gone.ID)
	if 2*alive <= all {
		return fmt.Errorf("without member %s %d of %d voters would be proven healthy: the quorum would be lost", gone.ID, alive, all)
	}
	if gone.Leader {
		return fmt.Errorf("member %s leads: it hands over first", gone.ID)
	}
	if gone.Health == Unhealthy {
		return nil // the quorum only gains by it
	}
	for _, e := range o.Etcd.Members {
		if e.Learner {
			return fmt.Errorf("learner %s may vote at any moment: one change at a time", e.ID)
		}
	}
	return nil
}

func checkMoveLeader(o Observed, s Step) error {
	if err := checkMembership(o); err != nil {
		return err
	}
	m, err := memberNamed(o, s.Member)
	switch {
	case err != nil:
		return err
	case m.Learner || m.Health != Healthy:
		return fmt.Errorf("member %s is no healthy voter: it cannot lead", m.ID)
	case m.Leader:
		return fmt.Errorf("member %s leads already", m.ID)
	}
	return nil
}

func checkRemoveMember(o Observed, s Step) error {
	if err := checkMembership(o); err != nil {
		return err
	}
	m, err := memberNamed(o, s.Member)
	if err != nil {
		return err
	}
	on, _ := machineNamed(o, m.Machine)
	if on.Deleting {
		return checkLeave(o, m)
	}
	if err := checkStuck(o, m); err != nil {
		return err
	}
	return checkLeave(o, m)
}

// checkStuck allows a member to be removed whose machine is not being deleted:
// because it has none, or never came to vote, and has had its time.
func checkStuck(o Observed, m Member) error {
	if m.Since.IsZero() || o.Now.Sub(m.Since) < 20*time.Second {
		return fmt.Errorf("member %s has not had its 20 seconds", m.ID)
	}
	if m.Learner || m.Name == "" {
		return nil
	}
	if _, err := machineNamed(o, m.Machine); err == nil {
		return fmt.Errorf("member %s votes on %s, which stays", m.ID, m.Machine)
	}
	if m.Health == Unhealthy {
		return nil
	}
	for _, on := range o.Machines {
		if on.Node == "" && !on.Deleting {
			return fmt.Errorf("member %s is not known to be dead and may be on %s, whose node is not known", m.ID, on.Name)
		}
	}
	return nil
}

// checkMembership: there are members, and they may be touched.
func checkMembership(o Observed) error {
	if !o.Etcd.Managed {
		return errors.New("the members of etcd are not ours")
	}
	return checkFacts(o)
}

func checkReleaseHook(o Observed, s Step) error {
	m, err := machineNamed(o, s.Machine)
	if err != nil {
		return err
	}
	if !m.Deleting {
		return fmt.Errorf("%s is not being deleted", m.Name)
	}
	if !o.Etcd.Managed || o.Group.New {
		return nil
	}
	if err := checkFacts(o); err != nil {
		return err
	}
	for _, e := range o.Etcd.Members {
		if e.Machine == m.Name {
			return fmt.Errorf("member %s is still on %s", e.ID, m.Name)
		}
	}
	return checkNoOrphan(o, m)
}
