package backup

import (
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	_ "time/tzdata" // an image without a file system's zones has these

	"github.com/robfig/cron/v3"
)

const (
	// mostJitter is by how much a backup may be later than its schedule says, so that not all clusters begin in the same second.
	mostJitter = 5 * time.Minute
	// firstRetry and lastRetry are how long after a failure the next attempt comes: after each more failure twice as long.
	firstRetry, lastRetry = time.Minute, 30 * time.Minute
)

// Timetable is a schedule that was parsed.
type Timetable struct {
	schedule cron.Schedule
	zone     *time.Location
}

// ParseSchedule parses a schedule of cron, such as "0 */6 * * *" or "@daily", in a time zone, such as Europe/Berlin; empty: UTC. The error
// says which of the two is wrong.
func ParseSchedule(schedule, zone string) (Timetable, error) {
	location, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return Timetable{}, fmt.Errorf("timeZone %q: must be a name of the IANA time zone database, such as Europe/Berlin", zone)
	}
	if strings.Contains(schedule, "TZ=") {
		return Timetable{}, fmt.Errorf("schedule %q: must not name a time zone; use timeZone", schedule)
	}
	parsed, err := cron.ParseStandard(schedule)
	if err != nil {
		return Timetable{}, fmt.Errorf("schedule %q: must be five fields of cron, such as 0 */6 * * *, or a word such as @daily: %w", schedule,
			err)
	}
	t := Timetable{parsed, location}
	if t.next(time.Unix(0, 0)).IsZero() {
		return Timetable{}, fmt.Errorf("schedule %q: must name a day that exists", schedule)
	}
	return t, nil
}

func (t Timetable) next(after time.Time) time.Time { return t.schedule.Next(after.In(t.zone)) }

// Interval returns the time between the two times of the schedule that follow.
func (t Timetable) Interval(after time.Time) time.Duration {
	first := t.next(after)
	return t.next(first).Sub(first)
}

// Past is what came of a cluster's backups so far.
type Past struct {
	// Taken is when the newest backup was taken; zero: there is none.
	Taken time.Time
	// Attempted is when a backup was tried last, and Failures how many attempts failed since the last that did not.
	Attempted time.Time
	Failures  int
}

// Due returns when the next backup is to be taken. That is at once while there is none, some minutes after a failure, and else at the next
// time of the schedule and a little later, by how much the cluster's UID decides.
func (t Timetable) Due(uid string, p Past) time.Time {
	if p.Failures > 0 {
		return p.Attempted.Add(min(lastRetry, firstRetry<<min(p.Failures-1, 10)))
	}
	if p.Taken.IsZero() {
		return p.Attempted
	}
	next := t.next(p.Taken)
	return next.Add(jitter(uid, min(mostJitter, t.Interval(p.Taken)/10)))
}

func jitter(uid string, most time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // a hash takes everything
	return time.Duration(h.Sum64() % uint64(max(most, 1)))
}

// Late reports whether the newest backup that counts is older than two intervals of the schedule.
func (t Timetable) Late(newest, now time.Time) bool {
	return newest.IsZero() || now.After(t.next(t.next(newest)).Add(mostJitter))
}
