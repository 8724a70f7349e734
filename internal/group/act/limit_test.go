package act

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/group/observe"
)

// TestAddReplacement: what is a day old is forgotten, a machine is there once, and times are rounded up.
func TestAddReplacement(t *testing.T) {
	now := time.Date(2026, 11, 23, 4, 5, 6, 1, time.FixedZone("", 3600))
	noted := []plan.Replacement{
		{Machine: "old", At: now.Add(-24 * time.Hour)}, {Machine: "a", At: now.Add(-3 * time.Hour)},
		{Machine: "b", At: now.Add(-24*time.Hour + time.Nanosecond)},
	}
	for machine, want := range map[string]string{
		"a": "b=2026-11-22T03:05:06Z,a=2026-11-23T03:05:07Z",
		"c": "b=2026-11-22T03:05:06Z,a=2026-11-23T00:05:06Z,c=2026-11-23T03:05:07Z",
	} {
		got := AddReplacement(noted, machine, now)
		if got != want {
			t.Errorf("with %s: %s, want %s", machine, got, want)
		}
		if _, err := observe.ParseReplacements(got); err != nil {
			t.Error(err)
		}
	}
	if got := AddReplacement(nil, "a", now.Truncate(time.Second)); got != "a=2026-11-23T03:05:06Z" {
		t.Errorf("a full second is written as %s", got)
	}
}
