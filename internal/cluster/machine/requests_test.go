package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// TestParseRequests: requests are read with their times, the later of two holds, and what cannot be read is quoted with what is accepted.
func TestParseRequests(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 11, 23, 4, minute, 0, 0, time.UTC) }
	for text, want := range map[string]plan.Requests{
		"":                                 {},
		" , ":                              {},
		"defragment=2026-11-23T04:01:00Z":  {Defragment: at(1)},
		"disarm=2026-11-23T05:02:00+01:00": {Disarm: at(2)},
		"move-leader/a=2026-11-23T04:03:00Z, move-leader/b=2026-11-23T04:02:00Z": {MoveLeader: at(3), Lead: "a"},
		"move-leader/a=2026-11-23T04:01:00Z, move-leader/b=2026-11-23T04:02:00Z": {MoveLeader: at(2), Lead: "b"},
		"defragment=2026-11-23T04:02:00Z,defragment=2026-11-23T04:01:00Z":        {Defragment: at(2)},
	} {
		got, err := ParseRequests(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := ParseRequests(FormatRequests(got)); err != nil || again != got {
			t.Errorf("%q was written as %q", text, FormatRequests(got))
		}
	}
	for text, says := range map[string]string{
		"defragment":                            `is "defragment"; requests with times are accepted, such as defragment=2026`,
		"defragment=now":                        "requests with times are accepted",
		"compact=2026-11-23T04:01:00Z":          "requests with times are accepted",
		"defragment/a=2026-11-23T04:01:00Z":     "requests with times are accepted",
		"move-leader=2026-11-23T04:01:00Z":      "requests with times are accepted",
		"move-leader/A_b=2026-11-23T04:01:00Z":  "requests with times are accepted",
		"\x1b[31m=2026-11-23T04:01:00Z":         `is "=2026`,
		strings.Repeat("disarm=x,", 400) + "y=": "must have at most 1024",
	} {
		if _, err := ParseRequests(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%.40q: %v, want %q", text, err, says)
		}
	}
}
