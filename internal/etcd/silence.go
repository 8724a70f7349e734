package etcd

import (
	"context"
	"time"
)

// briefly is how long a survey waits for a member that did not answer its last question within patience. The member
// has all of patience to answer even so, after the end of the survey, so that one that is only slow is waited for again.
const briefly = 500 * time.Millisecond

// silence stands for a target that did not answer its last question within patience.
type silence struct {
	// cancel ends the question that the target is being asked; nil: it is asked nothing.
	cancel context.CancelFunc
}

// askOne asks one target, for as long as patience if it answered the last time.
func (c *Cluster) askOne(ctx context.Context, t Target) answer {
	background, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	s, busy := c.askSilent(t.Name, cancel)
	if s != nil {
		return c.askBriefly(ctx, background, t, s)
	}
	defer cancel()
	if busy {
		return unanswered(t)
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	begun := time.Now()
	a := c.question(ctx, t)
	if a.err != nil && time.Since(begun) >= patience {
		c.noteSilence(t.Name)
	}
	return a
}

// askBriefly asks a target that was silent, and returns before it has answered if that takes longer than briefly.
func (c *Cluster) askBriefly(ctx, background context.Context, t Target, s *silence) answer {
	came := make(chan answer, 1)
	go func() {
		a := c.question(background, t)
		c.endQuestion(t.Name, s, a.err != nil && background.Err() != nil)
		came <- a
	}()
	limit := time.NewTimer(briefly)
	defer limit.Stop()
	select {
	case a := <-came:
		return a
	case <-limit.C:
	case <-ctx.Done():
	}
	return unanswered(t)
}

// unanswered is what a target says that does not answer.
func unanswered(t Target) answer { return answer{target: t, err: context.DeadlineExceeded} }

// askSilent begins a question to a target if it was silent; s is nil if it was not. busy: it was, and has not
// answered the question before this one either, which still runs.
func (c *Cluster) askSilent(name string, cancel context.CancelFunc) (s *silence, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s = c.silences[name]
	switch {
	case s == nil:
		return nil, false
	case s.cancel != nil:
		return nil, true
	}
	s.cancel = cancel
	return s, false
}

// endQuestion ends a question that askSilent began.
func (c *Cluster) endQuestion(name string, s *silence, silent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.cancel()
	s.cancel = nil
	if !silent && c.silences[name] == s {
		delete(c.silences, name)
	}
}

func (c *Cluster) noteSilence(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silences[name] == nil {
		c.silences[name] = &silence{}
	}
}

// forgetSilence ends what a target is being asked, and has it waited for again. c.mu is locked.
func (c *Cluster) forgetSilence(name string) {
	if s := c.silences[name]; s.cancel != nil {
		s.cancel()
	}
	delete(c.silences, name)
}
