package check

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// checkMembersGo allows a machine to go with the members on it, of which there may be none.
func checkMembersGo(o plan.Observed, gone plan.Machine) error {
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

// mayVote: a voter is on the machine, or one of no known machine may be.
func mayVote(o plan.Observed, m plan.Machine) bool {
	for _, e := range o.Etcd.Members {
		if mayBeOn(o, e, m) {
			return true
		}
	}
	return votersOn(o, m.Name) > 0
}

// mayBeOn: the member is a voter of no known machine, and this may be its place. One
// that has started is named after its Node.
func mayBeOn(o plan.Observed, e plan.Member, m plan.Machine) bool {
	if _, err := machineNamed(o, e.Machine); err == nil || e.Learner || isHeld(m) || m.Gone {
		return false
	}
	for _, on := range o.Etcd.Members {
		if on.Machine == m.Name {
			return false
		}
	}
	return mayBeCalled(o, e, m)
}

// mayBeCalled: the member has no name yet, or may have this one on the machine: its Node's, or, where there are no Nodes, its own.
func mayBeCalled(o plan.Observed, e plan.Member, m plan.Machine) bool {
	switch {
	case e.Name == "":
		return true
	case o.Policy.EtcdOnly:
		return e.Name == m.Name
	}
	return !isUp(m) || e.Name == m.Host
}

// learnerMayBeOn: the member is a learner of no known machine, and this may be its place.
func learnerMayBeOn(o plan.Observed, e plan.Member, m plan.Machine) bool {
	switch {
	case !e.Learner, e.Placeholder, isHeld(m), m.Gone:
		return false
	case e.Name == "":
		return canJoin(m)
	}
	return mayBeCalled(o, e, m)
}

// checkNoOrphan refuses to let a machine go that may hold a voter of no known machine.
func checkNoOrphan(o plan.Observed, gone plan.Machine) error {
	for _, e := range o.Etcd.Members {
		if mayBeOn(o, e, gone) {
			return fmt.Errorf("voter %s is on no known machine: it may be on %s", e.ID, gone.Name)
		}
	}
	return nil
}

// checkOneEach refuses facts in which two members answer on one machine.
func checkOneEach(o plan.Observed) error {
	healthy := map[string]string{}
	for _, m := range o.Etcd.Members {
		if m.Machine == "" || m.Health != plan.Healthy {
			continue
		}
		if other := healthy[m.Machine]; other != "" {
			return fmt.Errorf("members %s and %s both answer on %s", other, m.ID, m.Machine)
		}
		healthy[m.Machine] = m.ID
	}
	return nil
}

// checkRoom allows another machine beside those that leave with a voter only where these
// cannot go before it is there, or are still being drained and would not be one too many.
func checkRoom(o plan.Observed) error {
	for _, m := range o.Machines {
		if !m.Deleting || !mayVote(o, m) {
			continue
		}
		drained := m.Hook && !m.HookDue && len(o.Machines) < o.Want.Replicas
		needed := m.HookDue && servesAPI(o, m) && !apiBeside(o, m)
		if !drained && !needed {
			return fmt.Errorf("%s is leaving, and its voter with it: one change at a time", m.Name)
		}
	}
	return nil
}

// servesAPI: its API server may answer, as far as it has come. That it is not ready does not prove
// that it does not; where etcd beside it is gone, or does not answer, it cannot.
func servesAPI(o plan.Observed, m plan.Machine) bool {
	if !isUp(m) || o.Policy.EtcdOnly || m.Gone {
		return false
	}
	for _, c := range m.Components {
		if c.Name == "kube-apiserver" && c.Health == plan.Unhealthy && ours(o.Etcd) {
			return mayHoldEtcd(o, m)
		}
	}
	return true
}

// mayHoldEtcd: a member that is not proven dead is on the machine, or may be.
func mayHoldEtcd(o plan.Observed, m plan.Machine) bool {
	for _, e := range o.Etcd.Members {
		if (e.Machine == m.Name || mayBeOn(o, e, m)) && e.Health != plan.Unhealthy {
			return true
		}
	}
	return false
}

// apiBeside: another machine, held by its hook or staying, runs an API server that is proven
// healthy and, where members are known, may have one beside it, or there is no other machine, whosever.
func apiBeside(o plan.Observed, but plan.Machine) bool {
	for _, m := range o.Machines {
		if m.Name == but.Name || mayStop(o, m) || isReleased(m) || o.Etcd.Known && !mayHoldEtcd(o, m) {
			continue
		}
		for _, c := range m.Components {
			if c.Name == "kube-apiserver" && c.Health == plan.Healthy {
				return true
			}
		}
	}
	return len(o.Machines) == 1 && len(o.Uncontrolled) == 0
}

// mayStillAdd: kubeadm on a machine without a member may add one yet.
func mayStillAdd(o plan.Observed, m plan.Machine) bool {
	for _, e := range o.Etcd.Members {
		if e.Machine == m.Name {
			return false
		}
	}
	since := m.Created
	if m.Started.After(since) {
		since = m.Started
	}
	if m.UpSince.After(since) {
		since = m.UpSince
	}
	return canJoin(m) && o.Now.Sub(since) < addLimit(o)
}

// worst counts the voters as they may turn out when all that leave and are not held are gone, and those that no machine holds. One
// member and one more machine go besides. It returns those proven healthy, and all.
func worst(o plan.Observed, but, going string) (alive, all int) {
	alive, all = ballot(o, but)
	for _, m := range o.Machines {
		if m.Name != going && !isReleased(m) {
			continue
		}
		if getsIn(o, m) {
			all++
		}
		for _, e := range o.Etcd.Members {
			switch {
			case e.Machine != m.Name:
			case e.Learner:
				all++
			case e.Health == plan.Healthy && !isCorrupt(e):
				alive--
			}
		}
	}
	for _, e := range o.Etcd.Members {
		if e.ID != but && e.Health == plan.Healthy && !isCorrupt(e) && isAdrift(o, e) {
			alive--
		}
	}
	return alive, all
}

// isAdrift: the member is a voter, and can be on no machine of the list that something holds.
func isAdrift(o plan.Observed, e plan.Member) bool {
	if _, err := machineNamed(o, e.Machine); err == nil || e.Learner || len(o.Uncontrolled) > 0 {
		return false
	}
	for _, m := range o.Machines {
		if mayBeOn(o, e, m) && !isReleased(m) {
			return false
		}
	}
	return true
}

// checkNobodyLost: no voter answers, or may as far as was seen a moment ago, of which the machine can be none of the list that
// something holds.
func checkNobodyLost(o plan.Observed) error {
	for _, e := range o.Etcd.Members {
		silent := e.Health == plan.Unknown && (e.Since.IsZero() || o.Now.Sub(e.Since) < 5*time.Minute)
		switch {
		case e.Health != plan.Healthy && !silent, !isAdrift(o, e):
		case silent:
			return fmt.Errorf("member %s votes and cannot be asked, and is on no known machine: it may answer as it did a moment ago", e.ID)
		default:
			return fmt.Errorf("member %s answers and votes, and is on no known machine: a person decides about it first", e.ID)
		}
	}
	return nil
}

// checkAlarmEnded: while a member raises an alarm, a machine whose voter may answer goes only where it is marked, or has that voter's data
// corrupt.
func checkAlarmEnded(o plan.Observed, gone plan.Machine) error {
	if isMarked(gone) || isSilent(o, gone) {
		return nil
	}
	var raised error
	for _, e := range o.Etcd.Members {
		switch {
		case e.Machine == gone.Name && isCorrupt(e):
			return nil
		case len(e.Alarms) > 0:
			raised = fmt.Errorf("member %s raises %v: %s cannot be drained before that has ended", e.ID, e.Alarms, gone.Name)
		}
	}
	return raised
}

// checkNobodyLeaves: no voter is about to leave with its machine. One stays for as long as no other API server is proven healthy.
func checkNobodyLeaves(o plan.Observed) error {
	for _, m := range o.Machines {
		stays := m.HookDue && servesAPI(o, m) && !apiBeside(o, m)
		if m.Deleting && mayVote(o, m) && !stays {
			return fmt.Errorf("%s is leaving, and its voter with it: one change at a time", m.Name)
		}
	}
	return nil
}

// checkLeave allows a member to leave: the others keep the quorum, a leader has
// handed over, and no other voter comes or goes.
func checkLeave(o plan.Observed, gone plan.Member) error {
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
	on, _ := machineNamed(o, gone.Machine)
	if gone.Health == plan.Unhealthy || isReleased(on) {
		return nil // the quorum only gains by it
	}
	if name := carriedOut(o, gone.Machine); name != "" {
		return fmt.Errorf("%s is updated in place: member %s may live, and stays meanwhile", name, gone.ID)
	}
	if alive, all := worst(o, gone.ID, ""); 2*alive <= all {
		return fmt.Errorf("without member %s %d of %d voters would be proven healthy once those are gone that nothing holds", gone.ID, alive, all)
	}
	for _, e := range o.Etcd.Members {
		if e.Learner && !e.Placeholder {
			return fmt.Errorf("learner %s may vote at any moment: one change at a time", e.ID)
		}
	}
	return nil
}

func checkMoveLeader(o plan.Observed, s plan.Step) error {
	if err := checkMembership(o); err != nil {
		return err
	}
	m, err := memberNamed(o, s.Member)
	switch {
	case err != nil:
		return err
	case m.Learner || m.Health != plan.Healthy || isCorrupt(m):
		return fmt.Errorf("member %s is no healthy voter: it cannot lead", m.ID)
	case m.Differs:
		return fmt.Errorf("the data of member %s differ from those of most: it cannot lead", m.ID)
	case m.Leader:
		return fmt.Errorf("member %s leads already", m.ID)
	}
	if on, _ := machineNamed(o, m.Machine); mayStop(o, on) && !leaderGoes(o) {
		return fmt.Errorf("member %s is on %s, which is updated in place: it cannot lead", m.ID, on.Name)
	}
	return nil
}

// leaderGoes: the leader is dead or on a machine that nothing holds, and all other voters that are well are on machines that are updated in
// place.
func leaderGoes(o plan.Observed) bool {
	goes := false
	for _, e := range o.Etcd.Members {
		on, _ := machineNamed(o, e.Machine)
		switch {
		case e.Leader:
			goes = e.Health == plan.Unhealthy || isReleased(on)
		case !e.Learner && e.Health == plan.Healthy && !isCorrupt(e) && !mayStop(o, on):
			return false
		}
	}
	return goes
}

// checkPromote allows a learner to vote that is ours to promote, answers, has caught up and is on a machine that stays.
func checkPromote(o plan.Observed, s plan.Step) error {
	if !o.Policy.EtcdOnly {
		return errors.New("what runs on the machine promotes its own member")
	}
	if err := checkMembership(o); err != nil {
		return err
	}
	m, err := memberNamed(o, s.Member)
	if err != nil {
		return err
	}
	if !m.Learner || m.Health != plan.Healthy || isCorrupt(m) || !m.InSync {
		return fmt.Errorf("member %s is no learner that answers and has caught up", m.ID)
	}
	on, err := machineNamed(o, m.Machine)
	if err != nil || on.Deleting {
		return fmt.Errorf("member %s is on no machine that stays: its voter would be missed", m.ID)
	}
	return nil
}

func checkRemoveMember(o plan.Observed, s plan.Step) error {
	if err := checkMembership(o); err != nil {
		return err
	}
	m, err := memberNamed(o, s.Member)
	if err != nil {
		return err
	}
	if m.Placeholder {
		return checkFreed(o, m)
	}
	on, _ := machineNamed(o, m.Machine)
	if on.Deleting {
		if on.Hook && !m.Learner && servesAPI(o, on) && !apiBeside(o, on) {
			return fmt.Errorf("without member %s the API server of %s stops, which may be the only healthy one", m.ID, on.Name)
		}
		return checkLeave(o, m)
	}
	if err := checkStuck(o, m); err != nil {
		return err
	}
	return checkLeave(o, m)
}

// checkStuck allows a member to be removed whose machine is not being deleted:
// because it has none, or never came to vote, and has had its time.
func checkStuck(o plan.Observed, m plan.Member) error {
	if m.Since.IsZero() || o.Now.Sub(m.Since) < 20*time.Second && !isDoomed(o, m) {
		return fmt.Errorf("member %s has not had its 20 seconds", m.ID)
	}
	if m.Learner || m.Name == "" {
		return nil
	}
	if _, err := machineNamed(o, m.Machine); err == nil {
		if m.Health != plan.Healthy && livesOn(o, m.Machine) {
			return nil // another member is the machine's own
		}
		return fmt.Errorf("member %s votes on %s, which stays", m.ID, m.Machine)
	}
	if mayRemoveVoter(o, m) {
		return nil
	}
	switch m.Health {
	case plan.Healthy:
		return fmt.Errorf("member %s answers and votes: whose it is, a person must say", m.ID)
	case plan.Unhealthy:
		return nil
	}
	return checkOnNone(o, m)
}

// checkOnNone refuses that a member goes that may be on a machine of which no member is known.
func checkOnNone(o plan.Observed, m plan.Member) error {
	for _, on := range o.Machines {
		if !on.Deleting && !isHeld(on) && len(membersOn(o, on.Name)) == 0 {
			return fmt.Errorf("member %s is not known to be dead and may be on %s, of which no member is known", m.ID, on.Name)
		}
	}
	return nil
}

// isDoomed: the member is a learner of no known machine, and of the machines that may still
// add one, there being some, nothing holds any.
func isDoomed(o plan.Observed, e plan.Member) bool {
	if _, err := machineNamed(o, e.Machine); err == nil || !e.Learner {
		return false
	}
	going := 0
	for _, m := range o.Machines {
		switch {
		case !mayStillAdd(o, m), !mayBeCalled(o, e, m):
		case !isReleased(m):
			return false
		default:
			going++
		}
	}
	return going > 0
}

// livesOn: a member that answers is on the machine.
func livesOn(o plan.Observed, machine string) bool {
	for _, e := range membersOn(o, machine) {
		if e.Health == plan.Healthy {
			return true
		}
	}
	return false
}

func membersOn(o plan.Observed, machine string) []plan.Member {
	var on []plan.Member
	for _, e := range o.Etcd.Members {
		if e.Machine == machine {
			on = append(on, e)
		}
	}
	return on
}

// checkMembership: there are members, and they may be touched.
func checkMembership(o plan.Observed) error {
	if !ours(o.Etcd) {
		return errors.New("the members of etcd are not ours")
	}
	return checkFacts(o)
}

func checkReleaseHook(o plan.Observed, s plan.Step) error {
	m, err := machineNamed(o, s.Machine)
	if err != nil {
		return err
	}
	if !m.Deleting {
		return fmt.Errorf("%s is not being deleted", m.Name)
	}
	if o.Group.New {
		return nil
	}
	if !o.Group.Initialized {
		return fmt.Errorf("whether a cluster runs on %s was not seen yet", m.Name)
	}
	if servesAPI(o, m) && !apiBeside(o, m) {
		return fmt.Errorf("%s may run the only healthy API server", m.Name)
	}
	if !ours(o.Etcd) {
		return nil
	}
	if err := checkFacts(o); err != nil {
		return err
	}
	for _, e := range o.Etcd.Members {
		if e.Machine == m.Name {
			return fmt.Errorf("member %s is still on %s", e.ID, m.Name)
		}
		if _, err := machineNamed(o, e.Machine); err != nil && learnerMayBeOn(o, e, m) {
			return fmt.Errorf("learner %s is on no known machine: it may be on %s", e.ID, m.Name)
		}
	}
	if err := checkLateVoter(o, m); err != nil {
		return err
	}
	return checkNoOrphan(o, m)
}

// checkLateVoter: a machine goes that may still add a voter only where the others could then still lose one, if they can now.
func checkLateVoter(o plan.Observed, m plan.Machine) error {
	if !getsIn(o, m) {
		return nil
	}
	now, voters := worst(o, "", "")
	alive, all := worst(o, "", m.Name)
	switch {
	case 2*alive <= all:
		return fmt.Errorf("%s may still join, and with it gone %d of %d voters would be proven healthy", m.Name, alive, all)
	case !o.Policy.EtcdOnly && 2*(now-1) > voters && 2*(alive-1) <= all:
		return fmt.Errorf("%s may still join, and with it gone none of the %d voters could fail", m.Name, all-1)
	}
	return nil
}

// isCorrupt: the member's data differ from those of the others.
func isCorrupt(m plan.Member) bool {
	for _, a := range m.Alarms {
		if a == "CORRUPT" {
			return true
		}
	}
	return false
}
