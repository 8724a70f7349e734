package report

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// TestTooShort: a plan says that it does not fit into a window, and only then.
func TestTooShort(t *testing.T) {
	now := time.Date(2026, 11, 28, 21, 0, 0, 0, time.UTC)
	o := plan.Observed{Now: now}
	if is := tooShort(o, 48*time.Hour); is != "" {
		t.Errorf("without windows: %s", is)
	}
	o.Group.Window.Closes = now.Add(time.Hour)
	if is := tooShort(o, time.Hour); is != "" {
		t.Errorf("it fits: %s", is)
	}
	want := "the window of spec.approval closes at 2026-11-28T22:00:00Z, and the plan is estimated to end at " +
		"2026-11-28T22:00:01Z: machines whose replacement or update has not begun by then wait for the next window"
	if is := tooShort(o, time.Hour+time.Second); is != want {
		t.Errorf("got %s", is)
	}
}
