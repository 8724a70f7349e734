package group

import (
	"time"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// Each look costs processor time, and requests to the members of etcd. Where something is under way in many groups, each is looked at less
// often for what is not watched, by that number of groups, and at most that many times. How new the facts of a decision are does not depend
// on it.
const (
	crowd     = 5
	crowdMost = 5
)

// gather is how long a turn waits after the one before, for more news, in each crowd beyond the first.
const gather = 50 * time.Millisecond

// Again returns when to look again after a decision.
func (t *Turn) Again(d plan.Decision) time.Duration {
	var soon time.Duration
	switch {
	case d.Step.Acts():
		soon = observe.SoonAfterAct
	case t.Facts.Group.Paused:
		return 0
	case t.steady(d) && (t.Memory.Addons.Fail() || t.Memory.ExternalEtcd.Fail()):
		soon = observe.SoonAtRest // no watch reports that they work again
	case t.steady(d), t.sleeps(d):
		soon = observe.SoonSteady
	default:
		soon = t.pace()
	}
	if d.Again > 0 {
		soon = min(soon, d.Again)
	}
	if t.Overtaken {
		soon = min(soon, observe.SoonAfterConflict)
	}
	for _, other := range []time.Duration{t.retell, t.Resurvey * t.crowd()} {
		if other > 0 {
			soon = min(soon, other)
		}
	}
	return soon
}

// steady reports whether nothing is left to do, and what is watched tells of whatever happens. Of machines without Nodes only etcd tells.
func (t *Turn) steady(d plan.Decision) bool {
	return d.Step.Verb == plan.Nothing && !t.Nodeless && t.pace() == observe.SoonAtRest
}

// sleeps reports whether the group is hibernated and nothing of it is left to go: only its own object wakes it, which is watched.
func (t *Turn) sleeps(d plan.Decision) bool {
	p := t.Facts.Power
	return d.Step.Verb == plan.Wait && p.Hibernate && p.Backup != "" && len(t.Facts.Machines) == 0
}

// rest is how long a survey is believed after a decision, while nothing changes; 0: something is under way.
func (t *Turn) rest(d plan.Decision) time.Duration {
	switch {
	case d.Step.Acts(), t.Busy():
		return 0
	case t.steady(d):
		return observe.SurveyAgeSteady
	}
	return observe.SurveyAgeAtRest
}

// pace is how soon to look again for the sake of what was observed, whatever was decided.
func (t *Turn) pace() time.Duration {
	o := t.Facts
	switch {
	case t.Type.Standalone && !t.Cluster.DeletionTimestamp.IsZero():
		return observe.SoonBusy // the end of MachinePools, which go first, is not watched
	case o.Want.Refused.Reason != "", len(o.Uncontrolled) > 0, o.Cluster.Template != "":
		return observe.SoonMissing
	case t.isInitializing():
		return observe.SoonInit
	case !t.Surveys() || !t.Busy():
		return observe.SoonAtRest
	case !t.moves():
		return max(observe.SoonLongBusy, t.Retry)
	}
	return max(observe.SoonBusy*t.crowd(), t.Retry)
}

// moves reports whether something is under way of which there was news not long ago. What is broken for good does not move.
func (t *Turn) moves() bool {
	return t.Busy() && t.Facts.Now.Sub(t.NewestFact(t.Object)) <= observe.LongWithoutNew
}

// crowd is how many times as long the group waits for the next look because of others.
func (t *Turn) crowd() time.Duration {
	if t.Controller == nil {
		return 1
	}
	return t.Memories.Crowd()
}

// isInitializing reports whether the first machine's API server answers, and it is not known yet whether kubeadm is done there.
func (t *Turn) isInitializing() bool {
	o := t.Facts
	return !o.Group.Initialized && !o.Group.Deleting && len(o.Machines) > 0 && o.Cluster.Reachable
}
