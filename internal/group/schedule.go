package group

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/internal/cluster/etcd"
	"github.com/quorate/quorate/internal/core/plan"
)

// observeEtcd adds what etcd says, and has it asked unless that was done a moment ago. The error is
// ErrSurveyRuns while the answers are not there.
func (t *Observer) observeEtcd(ctx context.Context) error {
	if !t.Surveys() {
		t.Memory.Surveys.Drop()
		return nil
	}
	t.Left = t.Memory.Left
	around := t.Around()
	t.Memory.Surveys.Take()
	if !t.Facts.Group.Initialized {
		t.Memory.Surveys.unanswered = 0 // the first member comes at any moment
	}
	if !t.Memory.Surveys.Usable(around, time.Now()) {
		if err := t.Memory.Surveys.Renew(ctx, t.asker(), around, ""); err != nil {
			return err
		}
	}
	t.useSurvey()
	t.resurvey = t.Memory.Surveys.Overtaken(around, t.Facts.Now)
	return nil
}

// useSurvey adds the newest survey.
func (t *Observer) useSurvey() {
	t.Facts.Now = time.Now()
	t.Retry = t.Memory.Surveys.Retry()
	t.AddEtcd(t.Memory.Surveys.Last, &t.Memory.Since, t.Facts.Now)
}

// How soon to look again. Objects, Nodes and Pods are watched; what is not are
// etcd, kubeadm's progress and secrets.
const (
	SoonAfterAct      = 10 * time.Millisecond
	SoonAfterConflict = 100 * time.Millisecond
	SoonInit          = 300 * time.Millisecond
	SoonKeys          = 300 * time.Millisecond
	SoonBusy          = time.Second
	SoonMissing       = 5 * time.Second
	SoonLongBusy      = 5 * time.Second
	SoonAtRest        = 30 * time.Second
	SoonSteady        = 5 * time.Minute
	longWithoutNew    = 5 * time.Minute
)

// Each look costs processor time, and requests to the members of etcd. Where something is under way in many groups, each is looked at less often for what is not watched,
// by that number of groups, and at most that many times. How new the facts of a decision are does not depend on it.
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
		soon = SoonAfterAct
	case t.Facts.Group.Paused:
		return 0
	case t.steady(d) && (t.Memory.Addons.fail() || t.Memory.ExternalEtcd.fail()):
		soon = SoonAtRest // no watch reports that they work again
	case t.steady(d):
		soon = SoonSteady
	default:
		soon = t.pace()
	}
	if d.Again > 0 {
		soon = min(soon, d.Again)
	}
	if t.overtaken {
		soon = min(soon, SoonAfterConflict)
	}
	for _, other := range []time.Duration{t.retell, t.resurvey * t.crowd()} {
		if other > 0 {
			soon = min(soon, other)
		}
	}
	return soon
}

// steady reports whether nothing is left to do, and what is watched tells of whatever happens. Of machines without Nodes only etcd tells.
func (t *Turn) steady(d plan.Decision) bool {
	return d.Step.Verb == plan.Nothing && !t.Nodeless && t.pace() == SoonAtRest
}

// rest is how long a survey is believed after a decision, while nothing changes; 0: something is under way.
func (t *Turn) rest(d plan.Decision) time.Duration {
	switch {
	case d.Step.Acts(), t.Busy():
		return 0
	case t.steady(d):
		return SurveyAgeSteady
	}
	return SurveyAgeAtRest
}

// pace is how soon to look again for the sake of what was observed, whatever was decided.
func (t *Turn) pace() time.Duration {
	o := t.Facts
	switch {
	case t.Nodeless && !t.Cluster.DeletionTimestamp.IsZero():
		return SoonBusy // the end of MachinePools, which go first, is not watched
	case o.Want.Refused.Reason != "", len(o.Uncontrolled) > 0, o.Cluster.Template != "":
		return SoonMissing
	case t.isInitializing():
		return SoonInit
	case !t.Surveys() || !t.Busy():
		return SoonAtRest
	case !t.moves():
		return max(SoonLongBusy, t.Retry)
	}
	return max(SoonBusy*t.crowd(), t.Retry)
}

// moves reports whether something is under way of which there was news not long ago. What is broken for good does not move.
func (t *Turn) moves() bool {
	return t.Busy() && t.Facts.Now.Sub(t.NewestFact(t.Object)) <= longWithoutNew
}

// crowd is how many times as long the group waits for the next look because of others.
func (t *Turn) crowd() time.Duration {
	if t.Controller == nil {
		return 1
	}
	return t.Memories.Crowd()
}

// isInitializing reports whether the first machine's API server answers, and nobody knows yet whether kubeadm is done there.
func (t *Turn) isInitializing() bool {
	o := t.Facts
	return !o.Group.Initialized && !o.Group.Deleting && len(o.Machines) > 0 && o.Cluster.Reachable
}

// asker asks the members of the group's etcd. It reads the turn, which must not be changed while it asks.
func (t *Observer) asker() Asker {
	return Asker{
		Ask: func(ctx context.Context, last etcd.Survey) etcd.Survey {
			quorum, err := t.Quorums.Of(ctx, t.Cluster)
			if err != nil {
				return etcd.Survey{Why: err.Error()}
			}
			return t.Ask(ctx, quorum, t.dial(), last)
		},
		Ended:     func(ctx context.Context) { t.wake(ctx, t.Key()) },
		Forgotten: func() { t.Quorums.Forget(t.ClusterKey()) },
	}
}

// wake asks for a turn of a group, for as long as ctx lasts.
func (s Sources) wake(ctx context.Context, key client.ObjectKey) {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case s.Wakes <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}
