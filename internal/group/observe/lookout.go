package observe

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

// GlanceEvery is how often one member is asked, where all is as wanted, whether what the last survey found still stands. What only etcd
// tells, such as a member that a person added, is noticed by it, and not with the next survey.
const GlanceEvery = 30 * time.Second

// lookout has one member asked, between the turns of a group in which all is as wanted, until something differs.
type lookout struct {
	// over is the survey that the members are held against.
	over etcd.Survey
	// at is when that survey ended.
	at     time.Time
	glance func(ctx context.Context, over etcd.Survey) bool
	ended  func(ctx context.Context)

	mu sync.Mutex
	// timer begins the next glance; cancel ends the one that runs.
	timer  *time.Timer
	cancel context.CancelFunc
	// stopped: nobody wants to know any more. differs: the survey does not stand any more.
	stopped, differs bool
}

// LookOut has one member asked between turns whether the newest survey still stands. Where it does not, a turn is brought about, which asks
// all of them.
func LookOut(t *Observer) {
	s := &t.Memory.Surveys
	if s.lookout != nil && s.lookout.at.Equal(s.At) {
		return
	}
	s.LookAway()
	s.lookouts++
	from, key := t.Sources, t.Key()
	l := &lookout{over: s.Last, at: s.At, glance: glance(t), ended: func(ctx context.Context) { from.wake(ctx, key) }}
	l.timer = time.AfterFunc(GlanceEvery, l.look)
	s.lookout = l
}

// LookAway ends what LookOut began.
func (s *Surveys) LookAway() {
	if s.lookout != nil {
		s.lookout.stop()
		s.lookout = nil
	}
}

// look takes one glance, and has the next one follow.
func (l *lookout) look() {
	ctx, cancel := context.WithTimeout(context.Background(), SurveyTimeout)
	defer cancel()
	l.mu.Lock()
	if l.stopped {
		l.mu.Unlock()
		return
	}
	l.cancel = cancel
	l.mu.Unlock()

	stands := l.glance(ctx, l.over)

	l.mu.Lock()
	switch {
	case l.stopped:
		stands = true
	case stands:
		l.timer.Reset(GlanceEvery)
	default:
		l.differs = true
	}
	l.mu.Unlock()
	if !stands {
		l.ended(ctx)
	}
}

func (l *lookout) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	l.timer.Stop()
	if l.cancel != nil {
		l.cancel()
	}
}

// isOver reports whether the survey was found not to stand any more.
func (l *lookout) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.differs
}

// glance returns what a lookout asks: one voter for as long as it lasts, so that one connection is enough, and the next one the next time.
func glance(t *Observer) func(ctx context.Context, over etcd.Survey) bool {
	voters := slices.DeleteFunc(t.Targets(t.Dial()), func(target etcd.Target) bool {
		return target.Dial == nil || !slices.ContainsFunc(t.Memory.Surveys.Last.Members, func(m etcd.Member) bool {
			return !m.Learner && cmp.Or(m.At, m.Name) == target.Name
		})
	})
	if len(voters) == 0 {
		return func(context.Context, etcd.Survey) bool { return true } // the next survey may find one
	}
	quorums, cluster, target := t.Quorums, t.Cluster, voters[t.Memory.Surveys.lookouts%len(voters)]
	return func(ctx context.Context, over etcd.Survey) bool {
		quorum, err := quorums.Of(ctx, cluster)
		return err == nil && quorum.Glance(ctx, target, over)
	}
}
