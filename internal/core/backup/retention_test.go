package backup

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02 15:04", text)
	if err != nil {
		panic(err)
	}
	return t
}

// TestExpired: which backups of a small store are deleted.
func TestExpired(t *testing.T) {
	// Two days of backups every 12 hours, older ones on other days. An x is one that was verified.
	store := []Stored{
		{"a", "u", at("2026-11-27 12:00"), false, false},
		{"b", "u", at("2026-11-27 00:00"), true, false},
		{"c", "u", at("2026-11-26 12:00"), false, false},
		{"d", "u", at("2026-11-26 00:00"), true, false},
		{"e", "u", at("2026-11-22 23:59"), true, false}, // a Sunday: the week before
		{"f", "u", at("2026-10-31 00:00"), true, false},
		{"g", "u", at("2026-10-01 00:00"), true, false},
		{"h", "other", at("2026-01-01 00:00"), true, false},
		{"i", "", at("2026-01-01 00:00"), true, false},
		{"j", "u", time.Time{}, true, false},
	}
	for name, test := range map[string]struct {
		r    Retention
		uid  string
		want string
	}{
		"all are kept":              {Retention{}, "u", ""},
		"no cluster":                {Retention{Last: 1}, "", ""},
		"a cluster without backups": {Retention{Last: 1}, "x", ""},
		"last one":                  {Retention{Last: 1}, "u", "g f e d c"},
		"last three":                {Retention{Last: 3}, "u", "g f e d"},
		"hourly":                    {Retention{Hourly: 4}, "u", "g f e"},
		"daily, the verified one":   {Retention{Daily: 3}, "u", "g f c"},
		"weekly":                    {Retention{Weekly: 2}, "u", "g f d c"},
		"monthly":                   {Retention{Monthly: 2}, "u", "g e d c"},
		"together":                  {Retention{Last: 1, Daily: 1, Weekly: 2, Monthly: 2}, "u", "g d c"},
		"more than there are":       {Retention{Last: 100, Daily: 100}, "u", ""},
	} {
		if got := strings.Join(Expired(test.r, test.uid, store, at("2026-11-27 13:00")), " "); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// TestExpiredHeld: a backup that a recovery restores is kept, however old it is.
func TestExpiredHeld(t *testing.T) {
	store := []Stored{
		{"a", "u", at("2026-11-27 12:00"), true, false},
		{"b", "u", at("2026-11-26 12:00"), true, false},
		{"c", "u", at("2026-10-01 12:00"), true, true},
		{"d", "u", at("2026-09-01 12:00"), false, true},
	}
	if got := strings.Join(Expired(Retention{Last: 1}, "u", store, at("2026-11-27 13:00")), " "); got != "b" {
		t.Errorf("%q, want b", got)
	}
}

// TestExpiredAhead: a backup with a time in the future takes the place of no other one, and is not deleted before its time has come. That
// of a clock that goes a little ahead counts.
func TestExpiredAhead(t *testing.T) {
	now := at("2026-11-27 12:00")
	store := []Stored{
		{"a", "u", at("2026-11-27 10:00"), true, false},
		{"b", "u", at("2026-11-27 11:00"), true, false},
		{"c", "u", at("2026-11-27 11:30"), false, false},
		{"x", "u", at("2027-11-27 00:00"), true, false},
		{"y", "u", at("2027-11-28 00:00"), false, false},
	}
	for _, r := range []Retention{{Last: 1}, {Last: 2}, {Hourly: 1}, {Daily: 1}, {Weekly: 1}, {Monthly: 1}} {
		if got := strings.Join(Expired(r, "u", store, now), " "); got != "a" {
			t.Errorf("%+v: %q, want a", r, got)
		}
	}
	if got := strings.Join(Expired(Retention{Last: 1}, "u", store, at("2028-01-01 00:00")), " "); got != "a b c" {
		t.Errorf("once all times have come: %q, want a b c", got)
	}
	store[3].Taken, store[4].Taken = now.Add(30*time.Second), now.Add(40*time.Second)
	if got := strings.Join(Expired(Retention{Last: 1}, "u", store, now), " "); got != "a b c" {
		t.Errorf("half a minute ahead: %q, want a b c", got)
	}
}

// timelines is how many random stores TestExpiredNever looks at.
const timelines = 100_000

// TestExpiredNever: in random timelines retention never deletes the newest verified backup, nor what is not this cluster's, whatever order
// the list has, also if it runs after each backup, and it deletes nothing that it keeps a moment later.
func TestExpiredNever(t *testing.T) {
	random := rand.New(rand.NewPCG(45, 1))
	deleted := 0
	for n := range timelines {
		r := randomRetention(random)
		deleted += runTimeline(t, random, r)
		if t.Failed() {
			t.Fatalf("timeline %d, retention %+v", n, r)
		}
	}
	t.Logf("%d timelines, %d backups deleted", timelines, deleted)
	if deleted < timelines {
		t.Errorf("%d backups were deleted in %d timelines: the test judges too little", deleted, timelines)
	}
}

func randomRetention(random *rand.Rand) Retention {
	number := func() int { return max(0, random.IntN(8)-3) }
	return Retention{Last: number(), Hourly: number(), Daily: number(), Weekly: number(), Monthly: number()}
}

// runTimeline adds up to 24 backups to a store, applies retention at random moments, and returns how many backups were deleted.
func runTimeline(t *testing.T, random *rand.Rand, r Retention) int {
	t.Helper()
	var store []Stored
	now, deleted := at("2026-01-30 00:00"), 0
	for i := range 1 + random.IntN(24) {
		now = now.Add(time.Duration(random.Int64N(int64(1) << (35 + random.IntN(15)))))
		s := Stored{fmt.Sprintf("%02d", i), "u", now.Truncate(time.Second), random.IntN(3) > 0, random.IntN(8) == 0}
		switch random.IntN(8) {
		case 0:
			s.UID = "other"
		case 1:
			s.UID = ""
		case 2:
			s.Taken = s.Taken.Add(-time.Duration(random.Int64N(int64(1000 * time.Hour)))) // a clock that went wrong, or a copied bucket
		case 3:
			s.Taken = s.Taken.Add(time.Duration(random.Int64N(int64(1000 * time.Hour)))) // somebody who wants others to be deleted
		}
		store = append(store, s)
		if random.IntN(2) > 0 {
			continue
		}
		random.Shuffle(len(store), func(i, j int) { store[i], store[j] = store[j], store[i] })
		expired := Expired(r, "u", store, now)
		judgeExpired(t, store, expired, now)
		deleted += len(expired)
		store = slices.DeleteFunc(store, func(s Stored) bool { return slices.Contains(expired, s.Name) })
		if again := Expired(r, "u", store, now); len(again) > 0 {
			t.Errorf("%v are deleted after all that expired was deleted", again)
		}
	}
	return deleted
}

// judgeExpired looks for what must not be deleted, without a helper of Expired.
func judgeExpired(t *testing.T, store []Stored, expired []string, now time.Time) {
	t.Helper()
	var newest, proven Stored
	for _, s := range store {
		if s.UID != "u" || s.Taken.After(now.Add(time.Minute)) {
			continue
		}
		later := func(than Stored) bool {
			return s.Taken.After(than.Taken) || s.Taken.Equal(than.Taken) && s.Name > than.Name
		}
		if later(newest) {
			newest = s
		}
		if s.Verified && later(proven) {
			proven = s
		}
	}
	for _, s := range store {
		if slices.Contains(expired, s.Name) && (s.UID != "u" || s.Held || s.Name == newest.Name || s.Name == proven.Name) {
			t.Errorf("%+v is deleted; newest %s, newest verified %s", s, newest.Name, proven.Name)
		}
	}
}
