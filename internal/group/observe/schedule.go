package observe

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

// observeEtcd adds what etcd says, and has it asked unless that was done a moment ago. The error is
// ErrSurveyRuns while the answers are not there.
func (t *Observer) observeEtcd(ctx context.Context) error {
	if !t.Surveys() {
		t.Memory.Surveys.Drop()
		remains{t}.add()
		return nil
	}
	t.Left = t.Memory.Left
	around := t.Around()
	t.Memory.Surveys.Take()
	if !t.Facts.Group.Initialized {
		t.Memory.Surveys.unanswered = 0 // the first member comes at any moment
	}
	if !t.Memory.Surveys.Usable(around, time.Now()) {
		if err := t.Memory.Surveys.Renew(ctx, t.Asker(), around, ""); err != nil {
			return err
		}
	}
	t.UseSurvey()
	t.Resurvey = t.Memory.Surveys.Overtaken(around, t.Facts.Now)
	return nil
}

// UseSurvey adds the newest survey.
func (t *Observer) UseSurvey() {
	t.Facts.Now = time.Now()
	t.Memory.Compared.Take(t.Facts.Now)
	t.Retry = t.Memory.Surveys.Retry()
	t.AddEtcd(t.Memory.Surveys.Last, &t.Memory.Since, t.Facts.Now)
	t.Memory.Compared.add(t.View)
	t.Memory.Space.note(t.Memory.Surveys.Last, t.Memory.Surveys.At)
	addSpace(t.View, t.Memory.Surveys.Last, &t.Memory.Space, t.Facts.Now)
	remains{t}.add()
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
	LongWithoutNew    = 5 * time.Minute
)

// Asker asks the members of the group's etcd. It reads the turn, which must not be changed while it asks.
func (t *Observer) Asker() Asker {
	return Asker{
		Ask: func(ctx context.Context, last etcd.Survey) etcd.Survey {
			quorum, err := t.Quorums.Of(ctx, t.Cluster)
			if err != nil {
				return etcd.Survey{Why: err.Error()}
			}
			return t.Ask(ctx, quorum, t.Dial(), last)
		},
		Ended:     func(ctx context.Context) { t.wake(ctx, t.Key()) },
		Forgotten: func() { t.Quorums.Forget(t.ClusterKey()) },
	}
}

// wake asks for a turn of a group, for as long as ctx lasts.
func (s Sources) wake(ctx context.Context, key client.ObjectKey) {
	if s.Wakes == nil {
		return // nobody takes turns
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	select {
	case s.Wakes <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}
