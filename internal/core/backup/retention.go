package backup

import (
	"slices"
	"strings"
	"time"
)

// Retention says how many backups are kept. A backup is kept if one of the numbers keeps it. The zero value keeps all.
type Retention struct {
	// Last is how many of the newest are kept.
	Last int
	// Hourly, Daily, Weekly and Monthly are for how many of the newest hours, days, weeks and months, of those that have a backup, the newest
	// backup is kept. Hours, days, weeks from Monday and months are those of UTC.
	Hourly, Daily, Weekly, Monthly int
}

// KeepsAll reports whether nothing is ever deleted.
func (r Retention) KeepsAll() bool { return r == Retention{} }

// Stored is one backup as retention looks at it.
type Stored struct {
	// Name is the backup's name.
	Name string
	// UID is the UID of the cluster in its manifest; empty: the backup has no manifest that can be read.
	UID string
	// Taken is the time in its manifest.
	Taken time.Time
	// Verified reports whether it was restored once.
	Verified bool
	// Held reports whether a recovery restores it, or will.
	Held bool
}

// mostAhead is how far ahead of a clock a backup's time may be: managers that took turns may have had clocks that differ.
const mostAhead = time.Minute

// IsAhead reports whether the time in a manifest is more than a minute ahead of now. Such a backup never counts as the newest: it
// would until its time comes, and retention would delete those that can be relied on.
func IsAhead(taken, now time.Time) bool { return taken.After(now.Add(mostAhead)) }

// NewestVerified returns the newest verified backup of the cluster with the UID, as the manifests in its store have it; false: there is
// none. A backup whose time is ahead does not count.
func NewestVerified(uid string, all []Stored, now time.Time) (Stored, bool) {
	var newest Stored
	for _, s := range all {
		if s.Verified && s.UID == uid && uid != "" && s.Taken.After(newest.Taken) && !IsAhead(s.Taken, now) {
			newest = s
		}
	}
	return newest, newest.Verified
}

// Expired returns the names of the backups that retention deletes for the cluster with the UID, oldest first. It returns only backups
// that have a manifest with this UID, and never the newest of these, the newest verified one, nor one that a recovery restores. A backup
// whose time is ahead is not judged before that time.
func Expired(r Retention, uid string, all []Stored, now time.Time) []string {
	if r.KeepsAll() || uid == "" {
		return nil
	}
	own := make([]Stored, 0, len(all))
	for _, s := range all {
		if s.UID == uid && !s.Taken.IsZero() && !IsAhead(s.Taken, now) {
			own = append(own, s)
		}
	}
	slices.SortFunc(own, func(a, b Stored) int {
		if c := b.Taken.Compare(a.Taken); c != 0 {
			return c
		}
		return strings.Compare(b.Name, a.Name)
	})
	kept := make([]bool, len(own))
	verified := slices.IndexFunc(own, func(s Stored) bool { return s.Verified })
	for i := range own {
		kept[i] = i == 0 || i == verified || i < r.Last || own[i].Held
	}
	for _, p := range []struct {
		most   int
		period func(time.Time) time.Time
	}{{r.Hourly, hour}, {r.Daily, day}, {r.Weekly, week}, {r.Monthly, month}} {
		keepPeriods(own, kept, p.most, p.period)
	}
	var expired []string
	for i, s := range slices.Backward(own) {
		if !kept[i] {
			expired = append(expired, s.Name)
		}
	}
	return expired
}

// keepPeriods keeps one backup of each of the newest periods that have one: the newest verified, or else the newest.
func keepPeriods(own []Stored, kept []bool, most int, period func(time.Time) time.Time) {
	for i := 0; i < len(own) && most > 0; most-- {
		end, best := i, -1
		for ; end < len(own) && period(own[end].Taken).Equal(period(own[i].Taken)); end++ {
			if best < 0 && own[end].Verified {
				best = end
			}
		}
		kept[max(best, i)] = true
		i = end
	}
}

func hour(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }

func day(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, time.UTC)
}

func week(t time.Time) time.Time {
	d := day(t)
	return d.AddDate(0, 0, -(int(d.Weekday())+6)%7)
}

func month(t time.Time) time.Time {
	t = t.UTC()
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}
