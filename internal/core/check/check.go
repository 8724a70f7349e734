package check

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// Decision compares a decision with what must never happen, whatever rule it comes from. An error says what the step would break: it is a
// defect of the rules, and the step must not be taken.
func Decision(o plan.Observed, d plan.Decision) error {
	if err := checkForm(d); err != nil {
		return err
	}
	if d.Step.Verb == plan.Wait || d.Step.Verb == plan.Nothing {
		return nil
	}
	if err := checkHeld(o.Group); err != nil {
		return err
	}
	if o.Group.Deleting && len(o.Workers) == 0 {
		return checkLast(o, d.Step)
	}
	if isOfHibernation(o, d.Step) {
		return checkHibernation(o, d.Step)
	}
	if o.Recovery.Begun || isOfRecovery(d.Step) {
		return checkRecovery(o, d.Step)
	}
	if d.Step.Verb == plan.DropChoice {
		return checkDropChoice(o, d.Step)
	}
	o = withoutForgotten(o)
	if err := checkAside(o, d.Step); err != nil {
		return err
	}
	if err := errors.Join(checkRefused(o, d.Step), checkNothingBegun(o, d.Step)); err != nil {
		return err
	}
	return checkStep(o, d.Step)
}

// checkHeld: nothing is done to a group that is paused, inactive, or deleted without its machines.
func checkHeld(g plan.Group) error {
	switch {
	case g.Paused:
		return errors.New("the group is paused: nothing may be done")
	case g.Inactive && !g.Deleting:
		return errors.New("the group is inactive: nothing may be done")
	case g.Deleting && g.Orphaning:
		return errors.New("the group is deleted without its machines: nothing may be done to them")
	}
	return nil
}

// checkStep holds a step of a group that stays against what that kind of step must not do.
func checkStep(o plan.Observed, s plan.Step) error {
	switch s.Verb {
	case plan.Write:
		return checkWrite(o, s)
	case plan.Create:
		return checkCreate(o, s)
	case plan.Delete:
		return checkDelete(o, s)
	case plan.MoveLeader:
		return checkMoveLeader(o, s)
	case plan.PromoteMember:
		return checkPromote(o, s)
	case plan.EnableDowngrade:
		return checkEnableDowngrade(o, s)
	case plan.CancelDowngrade:
		return checkCancelDowngrade(o)
	case plan.Compact, plan.Defragment, plan.Disarm:
		return checkSpace(o, s)
	case plan.AddPlaceholder, plan.RemoveMember:
		return checkListChange(o, s)
	case plan.ReleaseHook:
		return checkReleaseHook(o, s)
	case plan.StartBootstrap:
		return checkStartBootstrap(o, s)
	case plan.Adopt:
		return checkAdopt(o, s)
	case plan.UpdateInPlace, plan.RecordUpdate, plan.DropUpdate:
		return checkOfUpdate(o, s)
	case plan.RequestBackup:
		return checkRequest(o)
	}
	return fmt.Errorf("%s: not a step for a group that stays", action(s))
}

// checkForm refuses decisions that cannot be carried out or understood.
func checkForm(d plan.Decision) error {
	if d.Rule == "" || d.Reason == "" || d.Message == "" {
		return fmt.Errorf("%s has no rule, reason or message", d.Step)
	}
	s := d.Step
	wanted := map[plan.Verb]plan.Step{
		plan.Nothing: {}, plan.Wait: {}, plan.Finish: {}, plan.CancelDowngrade: {}, plan.RequestBackup: {},
		plan.BeginRecovery: {}, plan.EndRecovery: {}, plan.Disarm: {},
		plan.Compact:          {Revision: 1},
		plan.Defragment:       {Member: "x"},
		plan.BeginHibernation: {}, plan.Hibernate: {}, plan.Wake: {}, plan.EndHibernation: {},
		plan.EnableDowngrade: {Version: "x"},
		plan.DropChoice:      {Choice: "x"},
		plan.Write:           {Chore: "x"},
		plan.Create:          {Machine: "x"},
		plan.Adopt:           {Machine: "x"},
		plan.Delete:          {Machine: "x"},
		plan.StartBootstrap:  {Machine: "x"},
		plan.UpdateInPlace:   {Machine: "x"},
		plan.RecordUpdate:    {Machine: "x"},
		plan.DropUpdate:      {Machine: "x"},
		plan.ReleaseHook:     {Machine: "x"},
		plan.GiveUp:          {Machine: "x"},
		plan.AddPlaceholder:  {Machine: "x"},
		plan.MoveLeader:      {Member: "x"},
		plan.RemoveMember:    {Member: "x"}, plan.PromoteMember: {Member: "x"},
	}
	want, known := wanted[s.Verb]
	switch {
	case !known:
		return fmt.Errorf("%q is no verb", s.Verb)
	case want.Machine != "" && s.Machine == "":
		return fmt.Errorf("%s names no machine", s.Verb)
	case want.Member != "" && s.Member == "":
		return fmt.Errorf("%s names no member", s.Verb)
	case (want.Chore == "") != (s.Chore == ""):
		return fmt.Errorf("%s names the chore %q", s.Verb, s.Chore)
	case (want.Version == "") != (s.Version == ""):
		return fmt.Errorf("%s names the version %q", s.Verb, s.Version)
	case (want.Revision == 0) != (s.Revision == 0):
		return fmt.Errorf("%s names the revision %d", s.Verb, s.Revision)
	case (want.Choice == "") != (s.Choice == ""):
		return fmt.Errorf("%s names the decision %q", s.Verb, s.Choice)
	}
	return checkSurplus(s)
}

// checkSurplus refuses steps that say what only others can mean.
func checkSurplus(s plan.Step) error {
	created := plan.Step{
		Verb: s.Verb, Machine: s.Machine, Member: s.Member, Chore: s.Chore, Version: s.Version, Revision: s.Revision, Choice: s.Choice,
		Domain: s.Domain, Init: s.Init, Seed: s.Seed, Hold: s.Hold, Number: s.Number,
	}
	bare := plan.Step{
		Verb: s.Verb, Machine: s.Machine, Member: s.Member, Chore: s.Chore, Version: s.Version, Revision: s.Revision, Choice: s.Choice,
	}
	repaired := bare
	repaired.Repair, repaired.Retry = s.Repair, s.Retry
	switch {
	case s.Counts && (s.Verb != plan.UpdateInPlace && s.Verb != plan.Delete || s.Repair):
		return fmt.Errorf("%s says that it counts as a replacement", s.Verb)
	case s.Verb != plan.UpdateInPlace && s.First:
		return fmt.Errorf("%s says that it is the first update", s.Verb)
	case s.Verb != plan.Create && created != bare:
		return fmt.Errorf("%s says how to create a machine", s.Verb)
	case s.Verb != plan.Delete && repaired != bare:
		return fmt.Errorf("%s says what is repaired", s.Verb)
	}
	return nil
}

// checkLast allows what ends a group: its quorum is given up.
func checkLast(o plan.Observed, s plan.Step) error {
	if s.Verb != plan.Finish {
		if err := checkLastBackup(o); err != nil {
			return err
		}
	}
	switch s.Verb {
	case plan.Delete:
		_, err := machineNamed(o, s.Machine)
		return err
	case plan.ReleaseHook:
		m, err := machineNamed(o, s.Machine)
		if err == nil && !m.Deleting {
			return fmt.Errorf("%s is not being deleted", m.Name)
		}
		return err
	case plan.Finish:
		if len(o.Machines) > 0 {
			return fmt.Errorf("%d machines are left", len(o.Machines))
		}
		return nil
	}
	return fmt.Errorf("%s: not a step for a group that is being deleted", action(s))
}

// checkFacts refuses steps that touch machines or members on facts that are
// missing, contradictory, or say that the quorum is lost.
func checkFacts(o plan.Observed) error {
	if err := checkReachable(o); err != nil || !ours(o.Etcd) {
		return err
	}
	if !o.Etcd.Known || !o.Etcd.Agreed {
		return errors.New("the members of etcd are not known, or disagree")
	}
	if err := checkOneEach(o); err != nil {
		return err
	}
	if alive, all := ballot(o, ""); 2*alive <= all {
		return fmt.Errorf("the quorum is lost: %d of %d voters are proven healthy", alive, all)
	}
	return nil
}

func checkReachable(o plan.Observed) error {
	if !o.Cluster.Reachable {
		return errors.New("the API server does not answer: what is on the machines is not known")
	}
	return nil
}

// ballot counts the voters but one: those proven healthy, and all.
func ballot(o plan.Observed, but string) (alive, all int) {
	for _, m := range o.Etcd.Members {
		if m.Learner || m.ID == but {
			continue
		}
		all++
		if m.Health == plan.Healthy && !isCorrupt(m) {
			alive++
		}
	}
	return alive, all
}

func checkCreate(o plan.Observed, s plan.Step) error {
	if _, err := machineNamed(o, s.Machine); err == nil {
		return fmt.Errorf("%s exists", s.Machine)
	}
	if err := checkName(o, s.Machine); err != nil {
		return err
	}
	if o.Group.Deleting {
		return errors.New("the group is being deleted")
	}
	if err := checkNumber(o); err != nil {
		return err
	}
	if err := checkBeginning(o, s); err != nil {
		return err
	}
	if err := checkSurroundings(o); err != nil || s.Init || s.Hold {
		return err
	}
	if err := checkFacts(o); err != nil {
		return err
	}
	return checkNewJoin(o)
}

// checkLingering: a machine more than wanted comes when those are gone that have left, but for one where the user has room for it.
func checkLingering(o plan.Observed) error {
	lingering, most := 0, 0
	if o.Policy.Overlap {
		most = 1
	}
	for _, m := range o.Machines {
		if isReleased(m) {
			lingering++
		}
	}
	if lingering > most {
		return fmt.Errorf("one more than wanted would come, and the infrastructure of %d that have left is still there: %d may be",
			lingering, most)
	}
	return nil
}

// checkNumber: no more machines stay than are wanted, and in a rollout with surge one more.
func checkNumber(o plan.Observed) error {
	staying, surge := 0, 0
	for _, m := range o.Machines {
		if !m.Deleting {
			staying++
		}
		if isOld(o, m) {
			surge = o.Policy.Surge
		}
	}
	switch {
	case staying+1 > o.Want.Replicas+surge:
		return fmt.Errorf("%d machines would be one more than wanted", staying+1)
	case staying+1 > o.Want.Replicas:
		if err := checkLingering(o); err != nil {
			return err
		}
		if err := checkApproved(o, "one more than wanted would come"); err != nil {
			return err
		}
		if err := checkBackup(o, "one more than wanted would come"); err != nil {
			return err
		}
		return checkLimit(o, "", "one more than wanted would come, to replace another")
	}
	return nil
}

// mayReplace: by the policy another machine may take the place of one that is outdated. One that never came up cannot be updated. That
// updates are held, or that it is not known yet whether a machine can be updated, is no reason to replace it.
func mayReplace(o plan.Observed, m plan.Machine) bool {
	switch o.Policy.InPlace {
	case plan.InPlaceOnly, plan.InPlaceExternal:
		return false
	case plan.InPlacePreferred:
		return !isUp(m) || needsReplacement(m) || o.Policy.EtcdOnly || operated(o.Etcd)
	}
	return true
}

// checkBeginning: one machine initialises the cluster, those that are made ahead wait beside it, and all others join.
func checkBeginning(o plan.Observed, s plan.Step) error {
	begins := false
	for _, m := range o.Machines {
		begins = begins || !isHeld(m)
	}
	switch {
	case s.Init && (o.Group.Initialized || begins):
		return errors.New("a second machine would initialise another cluster")
	case s.Hold && (o.Group.Initialized || !o.Policy.Eager || !begins):
		return errors.New("only a machine that joins a cluster that is being initialised is made ahead")
	case !s.Init && !s.Hold && !o.Group.Initialized:
		return errors.New("there is nothing to join yet")
	}
	return nil
}

// checkStartBootstrap allows a machine that was made ahead to join, as if it were created now.
func checkStartBootstrap(o plan.Observed, s plan.Step) error {
	m, err := machineNamed(o, s.Machine)
	switch {
	case err != nil:
		return err
	case !isHeld(m):
		return fmt.Errorf("the bootstrap of %s is not held back", m.Name)
	case m.Deleting:
		return fmt.Errorf("%s is being deleted", m.Name)
	case !o.Group.Initialized:
		return errors.New("there is nothing to join yet")
	}
	if err := checkSurroundings(o); err != nil {
		return err
	}
	if err := checkFacts(o); err != nil {
		return err
	}
	return checkNewJoin(o)
}

// checkSurroundings: what a new machine needs around it is there.
func checkSurroundings(o plan.Observed) error {
	c := o.Cluster
	if !c.Infrastructure || c.Endpoint == "" && !o.Policy.EtcdOnly || c.Template != "" || barsJoins(c) {
		return errors.New("what a machine needs is missing")
	}
	return nil
}

// checkJoin allows another member to join: a learner, while every voter is
// healthy and none is about to leave; a voter only when no other member joins.
func checkJoin(o plan.Observed) error {
	if !ours(o.Etcd) {
		return nil
	}
	alive, all := ballot(o, "")
	if alive < all {
		return fmt.Errorf("%d of %d voters are proven healthy: no member may be added", alive, all)
	}
	for _, m := range o.Etcd.Members {
		if len(m.Alarms) > 0 {
			return fmt.Errorf("member %s raises %v: no member may be added", m.ID, m.Alarms)
		}
	}
	if err := checkSameData(o); err != nil {
		return err
	}
	if err := checkNobodyLost(o); err != nil {
		return err
	}
	if err := checkRoom(o); err != nil && all > 1 {
		return err // the last voter cannot leave before another has joined
	}
	if o.Policy.Learners {
		return nil
	}
	return checkVoterAlone(o)
}

// checkSameData: a new member copies the data of the leader, and a member with other data than most must be about to be replaced.
func checkSameData(o plan.Observed) error {
	if o.Etcd.Doubted != "" {
		return fmt.Errorf("%s: no member may be added", o.Etcd.Doubted)
	}
	for _, e := range o.Etcd.Members {
		on, _ := machineNamed(o, e.Machine) // one that is not known is not replaced
		if e.Differs && (e.Leader || !on.Deleting && !isMarked(on) && !isOld(o, on)) {
			return fmt.Errorf("the data of member %s differ from those of most: no member may be added", e.ID)
		}
	}
	return nil
}

// checkVoterAlone: no other member joins as a voter. Of machines whose voter is not known so many may
// have one as there are voters whose machine is not known.
func checkVoterAlone(o plan.Observed) error {
	unplaced, joins := 0, ""
	for _, e := range o.Etcd.Members {
		if _, err := machineNamed(o, e.Machine); err != nil && !e.Learner {
			unplaced--
		}
	}
	for _, m := range o.Machines {
		if votersOn(o, m.Name) == 0 && !m.Deleting && canJoin(m) {
			unplaced, joins = unplaced+1, m.Name
		}
	}
	if unplaced > 0 {
		return fmt.Errorf("%s still joins as a voter: one change at a time", joins)
	}
	return nil
}

func votersOn(o plan.Observed, machine string) int {
	n := 0
	for _, e := range o.Etcd.Members {
		if e.Machine == machine && !e.Learner {
			n++
		}
	}
	return n
}

func checkDelete(o plan.Observed, s plan.Step) error {
	gone, err := machineNamed(o, s.Machine)
	if err != nil {
		return err
	}
	if o.Group.Deleting {
		return errors.New("the workers still need the machines")
	}
	if err := checkReplaceable(o); err != nil {
		return err
	}
	if err := checkOnly(o, gone); err != nil {
		return err
	}
	if err := checkCounted(o, s, gone); err != nil {
		return err
	}
	if o.Group.New || isHeld(gone) {
		return checkStart(gone)
	}
	if err := checkFacts(o); err != nil {
		return err
	}
	if err := checkEnough(o, gone); err != nil {
		return err
	}
	if err := checkNobodyLeaves(o); err != nil && !isSilent(o, gone) {
		return err // the quorum only gains when one goes whose voter is dead
	}
	if err := checkNobodyLost(o); err != nil && !isMarked(gone) {
		return err // only what is to be replaced goes beside a voter that a person decides about
	}
	if err := checkAlarmEnded(o, gone); err != nil {
		return err
	}
	return checkMembersGo(o, gone)
}

// checkEnough: as many stay as must, and of those that are replaced as many as are wanted whole.
func checkEnough(o plan.Observed, gone plan.Machine) error {
	staying, whole, held := without(o, gone)
	if err := checkStays(o, gone, staying); err != nil {
		return err
	}
	switch {
	case gone.Deleting:
		return fmt.Errorf("%s is being deleted already", gone.Name)
	case staying < o.Want.Replicas-1 && !isDead(o, gone) && !neverCame(o, gone):
		return fmt.Errorf("%d machines would be left, %d are wanted", staying, o.Want.Replicas)
	case whole < o.Want.Replicas-1+o.Policy.Surge && isOld(o, gone) && !isMarked(gone) && isMissed(o, gone):
		return fmt.Errorf("%s is outdated, and %d others have all their components: a rollout wants %d",
			gone.Name, whole, o.Want.Replicas-1+o.Policy.Surge)
	case operated(o.Etcd) && 2*whole <= len(o.Machines):
		return fmt.Errorf("%d of %d machines would be left with all components: more than half must be, their operator keeps a quorum on them",
			whole, len(o.Machines))
	case whole+held == 0:
		return fmt.Errorf("%s may be the last machine with all its components", gone.Name)
	}
	return nil
}

// isOld: a machine is outdated, and another may take its place.
func isOld(o plan.Observed, m plan.Machine) bool { return isOutdated(m) && mayReplace(o, m) }

// isMissed: a machine is whole, or may be so again in a moment, as its voter is well, and what takes the place of others is not whole
// itself.
func isMissed(o plan.Observed, m plan.Machine) bool {
	return isWhole(o, m) || isUp(m) && votesWell(o, m) && hasUnfit(o)
}

// hasUnfit: one of the machines that take the place of others does not have all its components.
func hasUnfit(o plan.Observed) bool {
	for _, m := range o.Machines {
		if !m.Deleting && !isOld(o, m) && !isWhole(o, m) {
			return true
		}
	}
	return false
}

// without counts, of the other machines, those that stay, how many of these have all their components, and those that
// leave with all of theirs and are held until another API server is healthy.
func without(o plan.Observed, gone plan.Machine) (staying, whole, held int) {
	for _, m := range o.Machines {
		switch {
		case m.Name == gone.Name:
		case !m.Deleting:
			staying++
			if isWhole(o, m) && !mayStop(o, m) {
				whole++
			}
		case m.Hook && isWhole(o, m) && !mayStop(o, m) && !apiBeside(o, m):
			held++
		}
	}
	return staying, whole, held
}

// checkStart: before anything is initialised only what is broken, made ahead, or made of what
// is not wanted any more, is deleted.
func checkStart(gone plan.Machine) error {
	if gone.Deleting || !isHeld(gone) && !isMarked(gone) && !isOutdated(gone) {
		return fmt.Errorf("%s may be about to initialise the cluster", gone.Name)
	}
	return nil
}

// isDead: somebody marked it, and its voter, if it has one, is proven not to answer, or has not been
// known to for long.
// It serves no client, and does not count.
func isDead(o plan.Observed, m plan.Machine) bool {
	waits := operated(o.Etcd) && isRefused(o.Want) && !isWhole(o, m) // the operator may wait for another in its place
	return isMarked(m) && isSilent(o, m) && (ours(o.Etcd) || !isUp(m) || ails(m) || waits)
}

// isSilent: no voter that is or may be on the machine answers, or has been known to for long.
func isSilent(o plan.Observed, m plan.Machine) bool {
	for _, e := range o.Etcd.Members {
		here := e.Machine == m.Name && !e.Learner || mayBeOn(o, e, m)
		silent := e.Health == plan.Unknown && !e.Since.IsZero() && o.Now.Sub(e.Since) >= 5*time.Minute
		if here && e.Health != plan.Unhealthy && !silent {
			return false
		}
	}
	return true
}

// ails: a component of it is proven not to be healthy, or nothing is left of it.
func ails(m plan.Machine) bool {
	if m.Gone {
		return true
	}
	for _, c := range m.Components {
		if c.Health == plan.Unhealthy {
			return true
		}
	}
	return false
}

// neverCame: what it is made of is not wanted any more, and it has neither Node nor
// voter. It serves no client, and does not count. Where only members tell of machines, one whose member is gone may have come.
func neverCame(o plan.Observed, m plan.Machine) bool {
	if o.Policy.EtcdOnly && m.CannotJoin != "" && m.Failed == "" {
		return false
	}
	return isOutdated(m) && !isUp(m) && !mayVote(o, m)
}

// hasCome reports whether a machine may have been whole before: it votes or may vote, or, where its members are not ours to ask, the
// cluster knows it. What it lacks beside that, it may have had a moment ago.
func hasCome(o plan.Observed, m plan.Machine) bool {
	switch {
	case o.Group.New:
		return false
	case ours(o.Etcd):
		return mayVote(o, m)
	}
	return isUp(m)
}
