package windows

import (
	"math/rand/v2"
	"testing"
	"time"
)

func parse(t *testing.T, days []string, start string, length time.Duration, zone string) Window {
	t.Helper()
	w, err := Parse(days, start, length, zone)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func moment(t *testing.T, text string) time.Time {
	t.Helper()
	m, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestParse(t *testing.T) {
	for _, bad := range []struct {
		days   []string
		start  string
		length time.Duration
		zone   string
		want   string
	}{
		{[]string{"Caturday"}, "22:00", time.Hour, "", `days "Caturday": must be a day of the week, such as Saturday`},
		{[]string{"saturday"}, "22:00", time.Hour, "", `days "saturday": must be a day of the week, such as Saturday`},
		{nil, "24:00", time.Hour, "", `start "24:00": must be a time of day from 00:00 to 23:59, such as 22:30`},
		{nil, "7:00", time.Hour, "", `start "7:00": must be a time of day from 00:00 to 23:59, such as 22:30`},
		{nil, "", time.Hour, "", `start "": must be a time of day from 00:00 to 23:59, such as 22:30`},
		{nil, "22:00", 9 * time.Minute, "", `length "9m0s": must be from 10m to 168h`},
		{nil, "22:00", 169 * time.Hour, "", `length "169h0m0s": must be from 10m to 168h`},
		{nil, "22:00", -time.Hour, "", `length "-1h0m0s": must be from 10m to 168h`},
		{nil, "22:00", time.Hour, "Mars", `timeZone "Mars": must be a name of the IANA time zone database, such as Europe/Berlin`},
		{nil, "22:00", time.Hour, "Local", `timeZone "Local": must be a name of the IANA time zone database, such as Europe/Berlin`},
		{nil, "22:00", time.Hour, "../x", `timeZone "../x": must be a name of the IANA time zone database, such as Europe/Berlin`},
	} {
		if _, err := Parse(bad.days, bad.start, bad.length, bad.zone); err == nil || err.Error() != bad.want {
			t.Errorf("Parse(%v) = %v, want %s", bad, err, bad.want)
		}
	}
	is := parse(t, []string{"Saturday", "Sunday"}, "22:30", 4*time.Hour, "Europe/Berlin").String()
	if is != "Saturday, Sunday at 22:30 Europe/Berlin for 4h0m0s" {
		t.Error(is)
	}
}

// TestAt: what the calendar says at single moments, those included at which clocks are changed.
func TestAt(t *testing.T) {
	night := parse(t, []string{"Saturday"}, "22:00", 4*time.Hour, "UTC") // 2026-11-28 is a Saturday
	skipped := parse(t, []string{"Sunday"}, "02:30", time.Hour, "Europe/Berlin")
	daily := parse(t, nil, "02:30", time.Hour, "Europe/Berlin")
	whole := parse(t, []string{"Monday"}, "00:00", 7*24*time.Hour, "America/St_Johns")
	apia := parse(t, []string{"Friday"}, "10:00", time.Hour, "Pacific/Apia") // 2011-12-30, a Friday, did not exist there
	const outside = "it is outside of spec.approval.windows"
	for _, row := range []struct {
		name     string
		calendar Calendar
		now      string
		why      string
		until    string
	}{
		{"no windows", Calendar{}, "2026-11-28T12:00:00Z", "", ""},
		{"before a window", Calendar{Windows: []Window{night}}, "2026-11-28T21:59:59Z", outside, "2026-11-28T22:00:00Z"},
		{"its first moment", Calendar{Windows: []Window{night}}, "2026-11-28T22:00:00Z", "", ""},
		{"past midnight", Calendar{Windows: []Window{night}}, "2026-11-29T01:59:59Z", "", ""},
		{"its end is outside", Calendar{Windows: []Window{night}}, "2026-11-29T02:00:00Z", outside, "2026-12-05T22:00:00Z"},
		{"frozen inside a window", Calendar{[]Window{night}, moment(t, "2026-11-28T23:00:00Z")}, "2026-11-28T22:30:00Z",
			"spec.approval.frozenUntil is 2026-11-28T23:00:00Z", "2026-11-28T23:00:00Z"},
		{"frozen beyond a window", Calendar{[]Window{night}, moment(t, "2026-11-30T00:00:00Z")}, "2026-11-28T22:30:00Z",
			"spec.approval.frozenUntil is 2026-11-30T00:00:00Z", "2026-12-05T22:00:00Z"},
		{"frozen without windows", Calendar{FrozenUntil: moment(t, "2026-11-30T00:00:00Z")}, "2026-11-28T22:30:00Z",
			"spec.approval.frozenUntil is 2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z"},
		{"a freeze that ended", Calendar{FrozenUntil: moment(t, "2026-11-28T00:00:00Z")}, "2026-11-28T00:00:00Z", "", ""},
		{"a start that is skipped is an hour later", Calendar{Windows: []Window{skipped}}, "2026-03-29T00:45:00Z",
			outside, "2026-03-29T01:30:00Z"}, // 02:30 CET would be 01:30 UTC, which is 03:30 CEST
		{"of two starts the first", Calendar{Windows: []Window{skipped}}, "2026-10-25T00:00:00Z",
			outside, "2026-10-25T00:30:00Z"},
		{"and it lasts an hour", Calendar{Windows: []Window{daily}}, "2026-10-25T01:30:00Z",
			outside, "2026-10-26T01:30:00Z"},
		{"a week is open always", Calendar{Windows: []Window{whole}}, "2026-06-01T02:29:59Z", "", ""},
		{"a day that did not exist", Calendar{Windows: []Window{apia}}, "2011-12-30T12:00:00Z",
			outside, "2012-01-05T20:00:00Z"},
	} {
		is := row.calendar.At(moment(t, row.now))
		until := ""
		if !is.Opens.IsZero() {
			until = is.Opens.UTC().Format(time.RFC3339)
		}
		if is.Closed != row.why || until != row.until {
			t.Errorf("%s: %q until %s, want %q until %s", row.name, is.Closed, until, row.why, row.until)
		}
	}
}

func TestCloses(t *testing.T) {
	night := parse(t, []string{"Saturday"}, "22:00", 4*time.Hour, "UTC")
	after := parse(t, []string{"Sunday"}, "02:00", time.Hour, "UTC")
	daily := parse(t, nil, "00:00", 24*time.Hour, "UTC")
	inside, outside := moment(t, "2026-11-28T23:00:00Z"), moment(t, "2026-11-28T12:00:00Z")
	both := Calendar{Windows: []Window{night, after}}
	for name, now := range map[string]time.Time{"inside": inside, "before it opens": outside} {
		if is := both.At(now).Closes; !is.Equal(moment(t, "2026-11-29T03:00:00Z")) {
			t.Errorf("two windows that touch, %s: they end at %s", name, is)
		}
	}
	for name, c := range map[string]Calendar{"no windows": {}, "each hour of the week": {Windows: []Window{daily}}} {
		if is := c.At(inside).Closes; !is.IsZero() {
			t.Errorf("%s: closes at %s", name, is)
		}
	}
}

// TestRandomCalendars: where it is closed, it opens at Until and not a second before, whatever zones and changes of clocks there are.
func TestRandomCalendars(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	zones := []string{
		"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu",
		"Africa/Casablanca", "Antarctica/Troll",
	}
	for range 100_000 {
		c, now := randomCalendar(t, random, zones)
		is := c.At(now)
		open := later(now, is.Opens)
		if end := is.Closes; !end.IsZero() && (!end.After(open) || c.At(end).Closed == "" || c.At(end.Add(-time.Second)).Closed != "") {
			t.Fatalf("%v at %s: does not close at %s", c, now, end)
		}
		if is.Closed == "" {
			continue
		}
		late := !is.Opens.After(now) || is.Opens.Sub(now) > 40*24*time.Hour
		if late || c.At(is.Opens).Closed != "" || c.At(is.Opens.Add(-time.Second)).Closed == "" {
			t.Fatalf("%v at %s: %v", c, now, is)
		}
	}
}

func randomCalendar(t *testing.T, random *rand.Rand, zones []string) (Calendar, time.Time) {
	t.Helper()
	now := time.Unix(random.Int64N(60*365*24*3600), 0).UTC()
	var c Calendar
	for range 1 + random.IntN(3) {
		var days []string
		for day := time.Sunday; day <= time.Saturday; day++ {
			if random.IntN(3) == 0 {
				days = append(days, day.String())
			}
		}
		start := time.Unix(random.Int64N(24*60)*60, 0).UTC().Format("15:04")
		length := Shortest + time.Duration(random.Int64N(int64(48*time.Hour))).Truncate(time.Minute)
		c.Windows = append(c.Windows, parse(t, days, start, length, zones[random.IntN(len(zones))]))
	}
	if random.IntN(2) == 0 {
		c.FrozenUntil = now.Add(time.Duration(random.Int64N(int64(20 * 24 * time.Hour)))).Truncate(time.Second)
	}
	return c, now
}
