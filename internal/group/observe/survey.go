package observe

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorate/quorate/internal/cluster/etcd"
)

const (
	// surveyWait is how long a turn waits for a survey. Members that are well answer within
	// milliseconds; a longer survey goes on without the turn, and the next one uses it.
	surveyWait = 100 * time.Millisecond
	// SurveyTimeout is how long a survey may take at most, with reading the credentials for it.
	SurveyTimeout = 10 * time.Second
	// surveyRetryMin is how long after a survey without an answer the next begins; each time twice as long.
	surveyRetryMin = time.Second
	// SurveyRetryMax is how long that is at most.
	SurveyRetryMax = 30 * time.Second
	// SurveyAge is how old a survey may be that a decision stands on, while something is under way.
	SurveyAge = time.Second
	// SurveyAgeOvertaken is the same where something else has changed since. The next look comes when it has passed.
	SurveyAgeOvertaken = 250 * time.Millisecond
	// SurveyAgeAtRest is the same while nothing is under way and nothing else has changed either.
	SurveyAgeAtRest = SoonAtRest - 5*time.Second
	// SurveyAgeSteady is the same where all is as wanted.
	SurveyAgeSteady = SoonSteady - 5*time.Second
)

// ErrSurveyRuns ends a turn that cannot decide before a survey ends. The survey's end brings about the next turn.
var ErrSurveyRuns = errors.New("the survey of etcd's members still runs")

// Asker asks the members of one group's etcd.
type Asker struct {
	// Ask asks all members; last is what they said before.
	Ask func(ctx context.Context, last etcd.Survey) etcd.Survey
	// Ended is called when a survey has ended for which a turn has not waited: it brings about another.
	Ended func(ctx context.Context)
	// Forgotten is called when the group was forgotten while the survey ran: what was opened for it must not stay.
	Forgotten func()
}

// Surveys keep what the members of one group's etcd said last, and the survey that runs. Turns of one
// group never overlap, so it needs no lock. The zero value is ready for use.
type Surveys struct {
	// Last is the newest survey that has ended, At when it had; zero: none is believed.
	Last etcd.Survey
	At   time.Time
	// Rest is how long it is believed while nothing else changes; 0: something was under way when it ended.
	Rest time.Duration
	// around is what else was known when it was asked for, confirmed the step that it was to confirm.
	around, confirmed string
	// unanswered counts surveys in a row without an answer.
	unanswered int
	running    *inquiry
	// lookout is what goes on between surveys; nil: nothing. lookouts counts them.
	lookout  *lookout
	lookouts int
}

// inquiry is one survey, outside of turns.
type inquiry struct {
	// around is what else was known when the survey began; confirms is the step that it is to confirm, empty: none.
	around, confirms string
	cancel           context.CancelFunc
	// done is closed when survey and answered are there.
	done     chan struct{}
	survey   etcd.Survey
	answered time.Time

	mu sync.Mutex
	// forgotten: the group was forgotten while the survey ran.
	forgotten atomic.Bool
	// ended and awaited tell whether the survey has ended, and whether a turn has gone without it.
	ended, awaited bool
}

// begin begins a survey, which outlives the turn.
func begin(ctx context.Context, by Asker, last etcd.Survey, around, confirms string) *inquiry {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), SurveyTimeout)
	q := &inquiry{around: around, confirms: confirms, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer cancel()
		q.survey = by.Ask(ctx, last)
		if q.forgotten.Load() {
			by.Forgotten()
		}
		q.answered = time.Now()
		if q.end() {
			by.Ended(ctx)
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

// wait waits for the survey for a short time, and reports whether it has ended. When it has not, its end brings about a turn.
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

// Renew makes the newest survey as new as this turn can have it: it takes in what has ended, and
// begins another when needed. around is what else is known, confirms the step that the survey is to confirm, empty: none.
// The error is ErrSurveyRuns when the turn must end without.
func (s *Surveys) Renew(ctx context.Context, by Asker, around, confirms string) error {
	if s.running == nil {
		s.running = begin(ctx, by, s.Last, around, confirms)
	}
	ended := false
	Aside(ctx, func() { ended = s.running.wait(ctx, surveyWait) })
	if !ended {
		return ErrSurveyRuns
	}
	s.Take()
	return nil
}

// Confirm makes sure that a survey was asked for that confirms this step, after all else that is known had become as it
// is, and has just come in. renewed: another was asked for now. The error is ErrSurveyRuns when the turn must end without.
func (s *Surveys) Confirm(ctx context.Context, by Asker, around, step string) (renewed bool, err error) {
	defer func() {
		if err == nil {
			s.confirmed = "" // for one step only
		}
	}()
	if s.confirms(step, around, time.Now()) {
		return false, nil
	}
	for !s.confirms(step, around, time.Now()) { // what still ran may have been another survey
		if err := s.Renew(ctx, by, around, step); err != nil {
			return false, err
		}
	}
	return true, nil
}

// confirms reports whether the newest survey was asked for to confirm this step, and has just come in.
func (s *Surveys) confirms(step, around string, now time.Time) bool {
	return s.confirmed == step && s.around == around && now.Sub(s.At) < SurveyAge
}

// Take takes in a survey that has ended, and that the newest one does not stand any more.
func (s *Surveys) Take() {
	if s.lookout != nil && s.lookout.isOver() {
		s.LookAway()
		s.At = time.Time{}
	}
	if s.running == nil {
		return
	}
	select {
	case <-s.running.done:
	default:
		return
	}
	q := s.running
	if q.survey.Known || q.around != s.around {
		s.unanswered = 0
	}
	if !q.survey.Known {
		s.unanswered++
	}
	s.Last, s.At, s.around, s.confirmed, s.running = q.survey, q.answered, q.around, q.confirms, nil
}

// Drop makes the next turn ask again: what etcd said, or is being asked, is no longer believed.
func (s *Surveys) Drop() {
	s.At, s.confirmed = time.Time{}, ""
	s.LookAway()
	if s.running != nil {
		s.running.cancel()
		s.running = nil
	}
}

// Forget ends what runs for a group that is forgotten.
func (s *Surveys) Forget() {
	if s.running != nil {
		s.running.forgotten.Store(true)
	}
	s.Drop()
}

// Running returns a channel that is closed when the survey that runs has ended; nil: none runs.
func (s *Surveys) Running() <-chan struct{} {
	if s.running == nil {
		return nil
	}
	return s.running.done
}

// Retry returns how long after a survey without any answer the next one begins; 0: the last one was answered.
func (s *Surveys) Retry() time.Duration {
	if s.unanswered == 0 {
		return 0
	}
	return min(surveyRetryMin<<min(s.unanswered-1, 10), SurveyRetryMax)
}

// Overtaken returns when a survey should be made again because something else has changed since it was asked for, around being what is
// known now; 0: nothing has.
func (s *Surveys) Overtaken(around string, now time.Time) time.Duration {
	if s.around == around {
		return 0
	}
	return max(SurveyAgeOvertaken-now.Sub(s.At), SoonAfterAct)
}

// Usable reports whether the newest survey will do, around being what else is known. One without an answer is believed for
// longer each time, unless something else has changed.
func (s *Surveys) Usable(around string, now time.Time) bool {
	age := now.Sub(s.At)
	switch {
	case s.around != around:
		return age < SurveyAgeOvertaken
	case age < SurveyAge:
		return true
	case s.unanswered > 0:
		return age < s.Retry()
	}
	return age < s.Rest
}
