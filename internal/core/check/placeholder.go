package check

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// checkListChange holds a step that changes etcd's list of members.
func checkListChange(o plan.Observed, s plan.Step) error {
	if s.Verb == plan.AddPlaceholder {
		return checkAddPlaceholder(o, s)
	}
	return checkRemoveMember(o, s)
}

// checkAddPlaceholder allows a placeholder where it keeps out a machine that goes, and only the machines that join wait for it.
func checkAddPlaceholder(o plan.Observed, s plan.Step) error {
	if err := checkMembership(o); err != nil {
		return err
	}
	m, err := machineNamed(o, s.Machine)
	switch {
	case err != nil:
		return err
	case !m.Deleting || !m.HookDue && m.Hook:
		return fmt.Errorf("%s is not about to go: others would be kept from joining for nothing", m.Name)
	case !mayStillAdd(o, m):
		return fmt.Errorf("%s adds no member any more", m.Name)
	case !addsLearner(o, m):
		return fmt.Errorf("%s would join as a voter, which a placeholder does not keep out", m.Name)
	case o.Etcd.Downgrade != "":
		return errors.New("etcd is being lowered, and a member that does not start would stop that")
	}
	if alive, all := ballot(o, ""); alive < all {
		return fmt.Errorf("%d of %d voters are proven healthy: no member may be added", alive, all)
	}
	learners := 0
	for _, e := range o.Etcd.Members {
		if e.Learner {
			learners++
		}
	}
	if learners > 0 && learners >= o.Etcd.MaxLearners {
		return fmt.Errorf("etcd has %d learners, and takes no more", learners)
	}
	return nil
}

// checkFreed allows a placeholder to be removed when no machine that nothing holds is kept out by it whose voter would be missed.
func checkFreed(o plan.Observed, placeholder plan.Member) error {
	without := o
	without.Etcd.Members = nil
	for _, e := range o.Etcd.Members {
		if e.ID != placeholder.ID {
			without.Etcd.Members = append(without.Etcd.Members, e)
		}
	}
	now, voters := worst(o, "", "")
	alive, all := worst(without, "", "")
	switch {
	case 2*now > voters && 2*alive <= all:
		return fmt.Errorf("a released machine could join without placeholder %s, and with it gone %d of %d voters would be proven healthy",
			placeholder.ID, alive, all)
	case !o.Policy.EtcdOnly && 2*(now-1) > voters && 2*(alive-1) <= all:
		return fmt.Errorf("a released machine could join without placeholder %s, and with it gone none of the %d voters could fail",
			placeholder.ID, all-1)
	}
	return nil
}

// addsLearner: what runs on the machine would add a learner, and no voter.
func addsLearner(o plan.Observed, m plan.Machine) bool { return o.Policy.Learners && !m.JoinsAsVoter }

// getsIn: kubeadm on a machine without a member may add one, and etcd would take it.
func getsIn(o plan.Observed, m plan.Machine) bool {
	slots := o.Etcd.MaxLearners
	if slots == 0 {
		slots = 1
	}
	for _, e := range o.Etcd.Members {
		if e.Placeholder {
			slots--
		}
	}
	return mayStillAdd(o, m) && (slots > 0 || !addsLearner(o, m))
}

// addLimit is how long kubeadm on a machine may take to add a member: 10 minutes at least.
func addLimit(o plan.Observed) time.Duration {
	if o.Policy.MemberAdd == 0 {
		return 30 * time.Minute
	}
	return max(o.Policy.MemberAdd, 10*time.Minute)
}

// checkNoPlaceholder refuses to let a machine join while a placeholder would keep it out.
func checkNoPlaceholder(o plan.Observed) error {
	for _, e := range o.Etcd.Members {
		if e.Placeholder {
			return fmt.Errorf("placeholder %s takes a learner slot: etcd refuses a machine that joins", e.ID)
		}
	}
	return nil
}
