package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/quorum"
)

// recoveryApproval is how long an approval may begin a recovery. One that was given while etcd had no quorum must not begin anything when
// etcd is silent for a moment, long after it had a quorum again.
const recoveryApproval = 15 * time.Minute

// Before a seed is planted the endpoint's API server must not have been ready for recoveryFailing, and nothing at all may have answered
// there for recoverySilence. One look that fails, or a pause of a machine without an object, must not begin a second cluster. A
// member that survived answers with errors until its machine is gone.
const (
	recoveryFailing = time.Minute
	recoverySilence = 10 * time.Second
)

// recoverBySeed recovers a group that lost its quorum, or all of its machines: all machines that a person gave up go, and then one new
// machine restores a snapshot. No old voter may be left by then: two of them would make a quorum of the old cluster.
func recoverBySeed(s *state) opinion {
	r := s.Recovery
	switch {
	case r.Name == "":
		return pass("no recovery is requested")
	case !r.Begun:
		return recovering{s}.begin()
	case r.Approved.IsZero():
		return wait("RecoveryUnapproved", "recovery %s was changed after it began: approve it again", r.Name)
	}
	if v := bootstrapSecrets(s); v.decided {
		return v // without a kubeconfig it cannot be seen whether an API server answers
	}
	on := recovering{s}
	m := on.seeded()
	if v := on.strangers(); m == nil && v.decided {
		return v
	}
	if v := on.giveUp(); v.decided {
		return v
	}
	if m != nil {
		return on.awaitSeeded(m)
	}
	return on.fence()
}

// recovering is the state of a group with a requested recovery.
type recovering struct{ *state }

// begin begins an approved recovery where etcd has no quorum. Until then the other rules go on.
func (s recovering) begin() opinion {
	r := s.Recovery
	switch {
	case !s.Etcd.Ours():
		return pass("recovery %s: etcd does not run on these machines", r.Name)
	case r.Seed == "":
		return pass("recovery %s has no seed yet", r.Name)
	case !s.Now.Before(r.Approved.Add(recoveryApproval)):
		return pass("recovery %s from backup %s waits for an approval, which is valid for %s", r.Name, r.Seed, span(recoveryApproval))
	case s.mayHaveQuorum():
		return pass("recovery %s is not needed: %s", r.Name, s.strength())
	case s.Cluster.Reachable && !s.Policy.EtcdOnly: // machines of etcd alone have no API server
		return pass("recovery %s is not needed: an API server answers, which none does without a quorum", r.Name)
	}
	if v := s.strangers(); v.decided {
		return v
	}
	if v := s.unplaced(); v.decided {
		return v
	}
	if v := bootstrapSecrets(s.state); v.decided {
		return v // it may show that an API server answers
	}
	given := count(len(r.GiveUp), "machine")
	return do(Step{Verb: BeginRecovery}, "Recovering", "recovery %s from backup %s: %s given up", r.Name, r.Seed, given)
}

// strangers waits while there are machines that were not given up: what is on them may be newer than the seed.
func (s recovering) strangers() opinion {
	for _, m := range s.Uncontrolled {
		return wait("RecoveryNotGivenUp", "Machine %s is a control plane machine of the cluster, and not one of %s: adopt or delete it",
			m.Name, s.Group.Name)
	}
	for _, m := range s.machines {
		if !m.Seeded && !slices.Contains(s.Recovery.GiveUp, m.Name) {
			return wait("RecoveryNotGivenUp", "Machine %s is not one of those that recovery %s gives up: create another recovery that names it",
				m.Name, s.Recovery.Name)
		}
	}
	return pass("all machines are given up")
}

// unplaced waits while etcd lists a voter for which no machine is known, as after the management cluster was restored from an older state:
// nothing can be deleted, and it may return.
func (s recovering) unplaced() opinion {
	for _, e := range s.Etcd.Members {
		if !e.Learner && e.Machine == "" && e.Name != "" && !slices.Contains(s.Recovery.GiveUp, e.Name) {
			return wait("RecoveryNotGivenUp", "no machine is known for etcd member %s, a voter: if its host is off for good, create another "+
				"recovery whose spec.giveUp has %s", e.Name, e.Name)
		}
	}
	return pass("all voters are given up")
}

// seeded returns the machine that was made by the seed and stays; nil: there is none.
func (s recovering) seeded() *machine {
	for _, m := range s.machines {
		if m.Seeded && !m.Deleting {
			return m
		}
	}
	return nil
}

// giveUp gives up the machines that a person named, also one that was not known for a while, and those that were to restore the seed and
// that a person deleted.
func (s recovering) giveUp() opinion {
	for _, m := range s.machines {
		named := slices.Contains(s.Recovery.GiveUp, m.Name)
		if !m.isReleased() && (m.Seeded && m.Deleting || !m.Seeded && named) {
			return do(Step{Verb: GiveUp, Machine: m.Name}, "Recovering", "%s is given up for recovery %s", m.Name, s.Recovery.Name)
		}
	}
	return pass("all machines are given up")
}

// fence waits until no machine that was given up can answer any more, and creates the one that restores the seed.
func (s recovering) fence() opinion {
	for _, m := range s.machines {
		if !m.Gone && !slices.Contains(s.Recovery.Off, m.Name) {
			return wait("RecoveryFencing",
				"waiting for the infrastructure of %s to be deleted; if the machine is off for good, add it to spec.off of EtcdRecovery %s",
				m.Name, s.Recovery.Name)
		}
	}
	if r := s.Want.Refused; s.Want.isRefused() && !r.Replaceable {
		return wait("RecoveryRefused", "no machine can be made: %s", r.Message)
	}
	if v := s.prepared(); v.decided {
		return v
	}
	if v := s.silence(); v.decided {
		return v
	}
	step := s.create()
	step.Init, step.Seed = true, true
	return do(step, "Recovering", "%s restores backup %s and initialises the cluster", step.Machine, s.Recovery.Seed)
}

// silence waits until nothing has answered at the endpoint for long enough.
func (s recovering) silence() opinion {
	c := s.Cluster
	switch {
	case s.Policy.EtcdOnly:
		return pass("machines of etcd alone have no endpoint")
	case c.Reachable:
		return wait("RecoveryFencing", "waiting for the API server at %s to be silent: a cluster that answers there is not one of the machines "+
			"that recovery %s gave up; if it is the right one, delete the recovery", c.Endpoint, s.Recovery.Name)
	case c.SilentSince.IsZero() || c.FailingSince.IsZero():
		return wait("RecoveryFencing", "waiting until nothing answers at %s any more (%s): a machine that the management cluster does not know "+
			"may run there; if it is one of the right cluster, delete recovery %s", c.Endpoint, c.Unreachable, s.Recovery.Name)
	case s.Now.Before(c.silentEnough()):
		return wait("RecoveryFencing", "waiting until %s has not served for %s, and has said nothing for the last %d s: a machine may only pause",
			c.Endpoint, span(recoveryFailing), recoverySilence/time.Second)
	}
	return pass("nothing answers at %s", c.Endpoint)
}

// silentEnough is when nothing will have answered at the endpoint for long enough.
func (c Cluster) silentEnough() time.Time {
	silent, failing := c.SilentSince.Add(recoverySilence), c.FailingSince.Add(recoveryFailing)
	if failing.After(silent) {
		return failing
	}
	return silent
}

// awaitSeeded waits until the machine that restores the seed serves.
func (s recovering) awaitSeeded(m *machine) opinion {
	switch {
	case m.standing == failed:
		return wait("RecoveryFailed", "%s: %s; delete Machine %s, and another restores the seed", m.Name, m.why, m.Name)
	case m.standing == complete && s.Cluster.Reachable && s.Etcd.Agreed && quorum.Has(s.voters):
		return do(Step{Verb: EndRecovery}, "Recovered", "%s serves from backup %s", m.Name, s.Recovery.Seed)
	}
	if v := s.dismiss(); v.decided {
		return v
	}
	if len(s.voters) > 1 && !s.mayHaveQuorum() {
		return wait("RecoveryFailed", "%s restored backup %s, and its etcd lost the quorum again: %s; delete Machine %s, and another restores "+
			"the seed",
			m.Name, s.Recovery.Seed, s.strength(), m.Name)
	}
	reason, doubt := s.doubt()
	if v := s.keepInside(); v.decided && reason == "EtcdUnknown" {
		return v // the snapshot may lack what lets etcd be asked
	}
	return wait("RecoverySeeding", "waiting for %s to serve from backup %s: %s", m.Name, s.Recovery.Seed, cmp.Or(m.why, doubt, s.strength()))
}

// dismiss removes the members of machines that were given up from the etcd that the seed began. One that a person declared off, and that
// was not, may have joined it, and goes at any moment.
func (s recovering) dismiss() opinion {
	if _, doubt := s.doubt(); doubt != "" {
		return pass("the members of etcd are not known: %s", doubt)
	}
	for i := range s.Etcd.Members {
		e := &s.Etcd.Members[i]
		if s.isOfGivenUp(e) && s.cannotSpare(e) == "" {
			return s.takeOut(e, "Recovering", "etcd member "+e.label()+" joined the cluster of the seed, and its machine was given up")
		}
	}
	return pass("no machine that was given up has a member")
}

// isOfGivenUp reports whether a member is on a machine that was given up, or a learner that can be on no other.
func (s recovering) isOfGivenUp(e *Member) bool {
	if on := s.on(e.Machine); on != nil {
		return on.isReleased()
	}
	return e.Learner && s.isOfReleased(e)
}
