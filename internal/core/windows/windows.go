// Package windows knows when the changes of a group may begin: inside its windows, and not before a freeze ends. It knows no clock and no
// object: it is given a moment.
package windows

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // an image without a file system's zones has these
)

const (
	// Shortest is the least length that a window can have.
	Shortest = 10 * time.Minute
	// Longest is the greatest length that a window can have.
	Longest = 7 * 24 * time.Hour
	// far is how many days around a moment the starts of a window are looked for: the longest window, and a week until the next one.
	far = 8
)

// Window is a time that comes back each week.
type Window struct {
	// Days are the days on which it starts; empty: each day.
	Days []time.Weekday
	// Hour and Minute are when it starts, on the clock of Zone.
	Hour, Minute int
	// Length is how long it is, in time that passes: a clock that is changed in the middle changes nothing.
	Length time.Duration
	Zone   *time.Location
}

// Parse reads a window. days are English names, such as Saturday; start is a time of day, such as 22:30; zone is a name of the IANA time
// zone database, empty: UTC. The error names the field, its value and what is valid.
func Parse(days []string, start string, length time.Duration, zone string) (Window, error) {
	w := Window{Length: length}
	for _, name := range days {
		day, err := parseDay(name)
		if err != nil {
			return Window{}, err
		}
		w.Days = append(w.Days, day)
	}
	at, err := time.Parse("15:04", start)
	if err != nil || len(start) != len("15:04") {
		return Window{}, FieldError{"start", start, "a time of day from 00:00 to 23:59, such as 22:30"}
	}
	w.Hour, w.Minute = at.Hour(), at.Minute()
	if length < Shortest || length > Longest {
		return Window{}, FieldError{"length", length.String(), "from 10m to 168h"}
	}
	if w.Zone, err = time.LoadLocation(zone); err != nil || zone == "Local" {
		return Window{}, FieldError{"timeZone", zone, "a name of the IANA time zone database, such as Europe/Berlin"}
	}
	return w, nil
}

// FieldError says which field of a window is wrong, its value, and what is valid.
type FieldError struct{ Field, Value, Valid string }

// Error returns the message.
func (e FieldError) Error() string {
	return fmt.Sprintf("%s %q: must be %s", e.Field, e.Value, e.Valid)
}

func parseDay(name string) (time.Weekday, error) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if day.String() == name {
			return day, nil
		}
	}
	return 0, FieldError{"days", name, "a day of the week, such as Saturday"}
}

// starts returns when the window starts around a moment, in order.
func (w Window) starts(around time.Time) []time.Time {
	var all []time.Time
	local := around.In(w.Zone)
	for n := -far; n <= far; n++ {
		day := time.Date(local.Year(), local.Month(), local.Day()+n, 12, 0, 0, 0, w.Zone)
		if w.isOn(day.Weekday()) {
			all = append(all, w.startOn(day))
		}
	}
	return all
}

func (w Window) isOn(day time.Weekday) bool {
	for _, d := range w.Days {
		if d == day {
			return true
		}
	}
	return len(w.Days) == 0
}

// startOn returns the start on a day. Of two, where clocks are set back, it is the first. One that is skipped, where clocks are set
// forward, is as much later: 02:30 becomes 03:30, as RFC 5545 has it.
func (w Window) startOn(day time.Time) time.Time {
	wall := time.Date(day.Year(), day.Month(), day.Day(), w.Hour, w.Minute, 0, 0, time.UTC)
	_, before := wall.Add(-24 * time.Hour).In(w.Zone).Zone()
	first := wall.Add(-time.Duration(before) * time.Second)
	_, after := wall.Add(24 * time.Hour).In(w.Zone).Zone()
	second := wall.Add(-time.Duration(after) * time.Second)
	for _, t := range []time.Time{earlier(first, second), later(first, second)} {
		if local := t.In(w.Zone); local.Hour() == w.Hour && local.Minute() == w.Minute {
			return t
		}
	}
	return first
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.Before(a) {
		return a
	}
	return b
}

// Calendar is when changes may begin.
type Calendar struct {
	// Windows are the times in which they may; empty: at any time.
	Windows []Window
	// FrozenUntil is before when none may; zero: nothing is frozen.
	FrozenUntil time.Time
}

// State is whether changes may begin at a moment, and when.
type State struct {
	// Closed says why they may not: frozen until ..., outside of spec.approval.windows; empty: they may.
	Closed string
	// Opens is the next moment at which they may, where they may not.
	Opens time.Time
	// Closes is until when they may, in the window that is open or opens next; windows that touch or overlap are one. Zero: there is no end.
	Closes time.Time
}

// At returns whether changes may begin at a moment.
func (c Calendar) At(now time.Time) State {
	opens := c.opens(later(now, c.FrozenUntil))
	s := State{Closes: c.closes(opens)}
	if !opens.After(now) {
		return s
	}
	s.Closed, s.Opens = "it is outside of spec.approval.windows", opens
	if now.Before(c.FrozenUntil) {
		s.Closed = fmt.Sprintf("spec.approval.frozenUntil is %s", text(c.FrozenUntil))
	}
	return s
}

// opens returns the first moment, now or later, that is inside a window.
func (c Calendar) opens(now time.Time) time.Time {
	var next time.Time
	for _, w := range c.Windows {
		for _, start := range w.starts(now) {
			switch {
			case !start.Add(w.Length).After(now):
				continue
			case !start.After(now):
				return now
			case next.IsZero() || start.Before(next):
				next = start
			}
		}
	}
	if next.IsZero() {
		return now
	}
	return next
}

// closes returns when the time ends in which changes may begin, of a moment at which they may; zero: it has no end.
func (c Calendar) closes(now time.Time) time.Time {
	if len(c.Windows) == 0 {
		return time.Time{}
	}
	end := now
	for grows := true; grows; {
		grows = false
		for _, w := range c.Windows {
			for _, start := range w.starts(end) {
				if is := start.Add(w.Length); !start.After(end) && is.After(end) {
					end, grows = is, true
				}
			}
		}
		if end.Sub(now) > far*24*time.Hour {
			return time.Time{} // they cover the week
		}
	}
	return end
}

// text writes a moment.
func text(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// String writes a window: Saturday, Sunday 22:30 Europe/Berlin for 4h0m0s.
func (w Window) String() string {
	days := "each day"
	if len(w.Days) > 0 {
		var names []string
		for _, d := range w.Days {
			names = append(names, d.String())
		}
		days = strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s at %02d:%02d %s for %s", days, w.Hour, w.Minute, w.Zone, w.Length)
}
