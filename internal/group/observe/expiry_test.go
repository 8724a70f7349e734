package observe

import (
	"errors"
	"testing"
	"time"
)

// TestExpiries: an API server is asked one at a time, and not more often than is good.
func TestExpiries(t *testing.T) {
	var e Expiries
	now := time.Now()
	away := errors.New("no answer")
	waits := []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 16 * time.Minute, 32 * time.Minute, time.Hour,
		time.Hour, time.Hour}
	for i, wait := range waits {
		if !e.Begin("m", now) || e.Begin("m", now) {
			t.Fatalf("try %d: want one at a time", i)
		}
		e.Done("m", time.Time{}, away, now)
		if now = now.Add(wait); e.Begin("m", now.Add(-time.Second)) {
			t.Errorf("try %d: asked again before %s", i, wait)
		}
	}
	tomorrow := now.AddDate(0, 0, 1)
	e.Begin("m", now)
	e.Done("m", tomorrow, nil, now)
	if e.Begin("m", now.Add(23*time.Hour)) || !e.Begin("m", now.Add(24*time.Hour)) {
		t.Error("who has answered is not asked once a day")
	}
	e.Done("m", time.Time{}, away, now)
	if !e.End("m").Equal(tomorrow) {
		t.Error("a date that was known is forgotten")
	}
	e.Only(nil)
	e.Done("m", now.AddDate(0, 0, 2), nil, now)
	if !e.End("m").IsZero() {
		t.Error("something is known of a Machine that is gone")
	}
}
