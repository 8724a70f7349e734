package etcd

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// briefly is how long a survey waits for a member that did not answer its last question within patience. The member
// has all of patience to answer even so, after the end of the survey, so that one that is only slow gets its full time again.
const briefly = 500 * time.Millisecond

// silence stands for a target that did not answer its last question within patience.
type silence struct {
	// cancel ends the question that the target is being asked; nil: it is asked nothing.
	cancel context.CancelFunc
	// err is what the last question that has ended failed with.
	err error
}

// askOne asks one target, for as long as patience if it answered the last time.
func (c *Cluster) askOne(ctx context.Context, t Target) answer {
	background, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	s, last := c.askSilent(t.Name, cancel)
	if s != nil {
		return c.askBriefly(ctx, background, t, s, last)
	}
	defer cancel()
	if last != nil {
		return answer{target: t, err: last}
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	begun := time.Now()
	a := c.question(ctx, t)
	if a.err != nil && time.Since(begun) >= patience {
		c.noteSilence(t.Name, a.err)
	}
	return a
}

// askBriefly asks a target that was silent, and returns the last question's error before it has answered if that
// takes longer than briefly.
func (c *Cluster) askBriefly(ctx, background context.Context, t Target, s *silence, last error) answer {
	came := make(chan answer, 1)
	go func() {
		a := c.question(background, t)
		// The member's own end of the connection may say first that time is up.
		silent := a.err != nil && (background.Err() != nil || status.Code(a.err) == codes.DeadlineExceeded)
		c.endQuestion(t.Name, s, silent, a.err)
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
	return answer{target: t, err: last}
}

// askSilent begins a question to a target if it was silent, of which last is the error; both are nil if it was not. s
// alone is nil if it was, and has not answered the question before this one either, which still runs.
func (c *Cluster) askSilent(name string, cancel context.CancelFunc) (s *silence, last error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s = c.silences[name]
	switch {
	case s == nil:
		return nil, nil
	case s.cancel != nil:
		return nil, s.err
	}
	s.cancel = cancel
	return s, s.err
}

// endQuestion ends a question that askSilent began.
func (c *Cluster) endQuestion(name string, s *silence, silent bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.cancel()
	s.cancel, s.err = nil, err
	if !silent && c.silences[name] == s {
		delete(c.silences, name)
	}
}

func (c *Cluster) noteSilence(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.silences[name] == nil {
		c.silences[name] = &silence{err: err}
	}
}

// forgetSilence ends what a target is being asked, and has it waited for again. c.mu is locked.
func (c *Cluster) forgetSilence(name string) {
	if s := c.silences[name]; s.cancel != nil {
		s.cancel()
	}
	delete(c.silences, name)
}
