package stacked

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	controlplanev1 "github.com/quorate/quorate/api/controlplane/v1beta2"
	"github.com/quorate/quorate/internal/etcd"
)

const (
	// surveyWait is how long a turn waits for a survey. Members that are well answer within
	// milliseconds; a longer survey goes on without the turn, and the next one uses it.
	surveyWait = 100 * time.Millisecond
	// surveyLimit is how long a survey may take at most, with reading the credentials for it.
	surveyLimit = 10 * time.Second
	// surveyRetryMin and surveyRetryMax are how long after a survey that nobody answered the next begins: each
	// time twice as long.
	surveyRetryMin = time.Second
	surveyRetryMax = 30 * time.Second
)

// errSurveyRuns ends a turn that cannot decide before a survey ends. The survey's end brings about the next turn.
var errSurveyRuns = errors.New("the survey of etcd's members still runs")

// inquiry is one survey of a control plane's etcd, outside of turns.
type inquiry struct {
	// around is what else was known when the survey began; confirms is the step that it is to confirm, empty: none.
	around, confirms string
	asked            time.Time
	cancel           context.CancelFunc
	// done is closed when survey and answered are there.
	done     chan struct{}
	survey   etcd.Survey
	answered time.Time

	mu sync.Mutex
	// forgotten: the control plane was forgotten while the survey ran.
	forgotten atomic.Bool
	// ended and awaited tell whether the survey has ended, and whether a turn has gone without it.
	ended, awaited bool
}

// inquire begins a survey. It reads the scene, which must not be changed while it runs.
func (r *Reconciler) inquire(ctx context.Context, s *scene, m *memory, around, confirms string) *inquiry {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), surveyLimit)
	q := &inquiry{around: around, confirms: confirms, asked: time.Now(), cancel: cancel, done: make(chan struct{})}
	last := m.survey
	go func() {
		defer cancel()
		if quorum, err := r.Quorums.Of(ctx, s.cluster); err != nil {
			q.survey.Why = err.Error()
		} else {
			q.survey = s.ask(ctx, quorum, r.dial(s.cluster), last)
		}
		if q.forgotten.Load() {
			// What was opened for it must not stay.
			r.Quorums.Forget(client.ObjectKeyFromObject(s.cluster))
		}
		q.answered = time.Now()
		if q.end() {
			r.wake(ctx, client.ObjectKeyFromObject(s.kcp))
		}
	}()
	return q
}

// end notes that the survey has ended, and reports whether a turn has gone without it.
func (q *inquiry) end() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	close(q.done)
	return q.awaited
}

// wait waits for the survey for a short time, and reports whether it has ended. When it has not, its end wakes the control plane.
func (q *inquiry) wait(ctx context.Context, most time.Duration) bool {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-q.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awaited = true
	return q.ended
}

// wake asks for a turn of a control plane, for as long as ctx lasts.
func (r *Reconciler) wake(ctx context.Context, key client.ObjectKey) {
	kcp := &controlplanev1.KubeadmControlPlane{}
	kcp.Namespace, kcp.Name = key.Namespace, key.Name
	select {
	case r.wakes <- event.GenericEvent{Object: kcp}:
	case <-ctx.Done():
	}
}

// surveyed makes the newest survey as new as this turn can have it: it takes in what has ended, and
// begins another when needed. The error is errSurveyRuns when the turn must end without.
func (r *Reconciler) surveyed(ctx context.Context, s *scene, m *memory, around, confirms string) error {
	if m.inquiry == nil {
		m.inquiry = r.inquire(ctx, s, m, around, confirms)
	}
	if !m.inquiry.wait(ctx, surveyWait) {
		return errSurveyRuns
	}
	m.take()
	return nil
}

// take takes in the survey of an inquiry that has ended.
func (m *memory) take() {
	if m.inquiry == nil {
		return
	}
	select {
	case <-m.inquiry.done:
	default:
		return
	}
	q := m.inquiry
	if q.survey.Known || q.around != m.around {
		m.unanswered = 0
	}
	if !q.survey.Known {
		m.unanswered++
	}
	m.survey, m.surveyed, m.around, m.confirmed, m.inquiry = q.survey, q.answered, q.around, q.confirms, nil
}

// dropSurvey makes the next turn ask anew: what etcd said, or is being asked, is no longer believed.
func (m *memory) dropSurvey() {
	m.surveyed, m.confirmed = time.Time{}, ""
	if m.inquiry != nil {
		m.inquiry.cancel()
		m.inquiry = nil
	}
}

// retry returns how long after a survey without any answer the next one begins; 0: the last one was answered.
func (m *memory) retry() time.Duration {
	if m.unanswered == 0 {
		return 0
	}
	return min(surveyRetryMin<<min(m.unanswered-1, 10), surveyRetryMax)
}

// usable reports whether the last survey will do. One that nobody answered is believed for
// longer each time, unless something else has changed.
func (m *memory) usable(around string, now time.Time) bool {
	age := now.Sub(m.surveyed)
	switch {
	case age < surveyAge:
		return true
	case m.around != around:
		return false
	case m.unanswered > 0:
		return age < m.retry()
	}
	return m.resting && age < surveyAgeRest
}

// confirms reports whether the newest survey was asked to confirm this step, after all else that is known had become
// as it is, and has just come in.
func (m *memory) confirms(step, around string, now time.Time) bool {
	return m.confirmed == step && m.around == around && now.Sub(m.surveyed) < surveyAge
}
