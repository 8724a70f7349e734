package backup

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// TestParseSchedule: what is no schedule is refused, by name.
func TestParseSchedule(t *testing.T) {
	for _, test := range []struct{ schedule, zone, want string }{
		{"0 */6 * * *", "", ""}, {"@daily", "Europe/Berlin", ""}, {"@every 90m", "UTC", ""}, {"30 2 29 2 *", "", ""},
		{"", "", `schedule ""`}, {"* * * *", "", `schedule "* * * *"`}, {"0 0 30 2 *", "", "a day that exists"},
		{"TZ=UTC 0 0 * * *", "", "must not name a time zone"},
		{"CRON_TZ=UTC 0 0 * * *", "", "must not name a time zone"}, {"0 0 * * *", "Mars/Olympus", `timeZone "Mars/Olympus"`},
		{"0 0 * * *", "Local", `timeZone "Local"`},
		{"0 0 * * *", "../etc/passwd", `timeZone "../etc/passwd"`}, {"61 * * * *", "", "schedule"},
	} {
		_, err := ParseSchedule(test.schedule, test.zone)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q in %q: %v", test.schedule, test.zone, err)
		}
	}
}

func timetable(t *testing.T, schedule, zone string) Timetable {
	t.Helper()
	parsed, err := ParseSchedule(schedule, zone)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestDue: when the next backup comes. Jitter is below the time that is added to what is wanted.
func TestDue(t *testing.T) {
	for name, test := range map[string]struct {
		schedule, zone string
		past           Past
		want           time.Time
	}{
		"none yet":                 {"@daily", "", Past{}, time.Time{}},
		"after one":                {"0 */6 * * *", "", Past{Taken: at("2026-11-27 06:04")}, at("2026-11-27 12:00")},
		"a zone":                   {"0 3 * * *", "Europe/Berlin", Past{Taken: at("2026-11-27 02:30")}, at("2026-11-28 02:00")},
		"an hour that is skipped":  {"30 2 * * *", "Europe/Berlin", Past{Taken: at("2026-03-28 01:45")}, at("2026-03-30 00:30")},
		"an hour that comes twice": {"30 2 * * *", "Europe/Berlin", Past{Taken: at("2026-10-24 00:45")}, at("2026-10-25 00:30")},
		"a failure": {"@daily", "", Past{Taken: at("2026-11-27 00:00"), Attempted: at("2026-11-28 00:00"), Failures: 1},
			at("2026-11-28 00:01")},
		"three": {"@daily", "", Past{Attempted: at("2026-11-28 00:00"), Failures: 3}, at("2026-11-28 00:04")},
		"many":  {"@daily", "", Past{Attempted: at("2026-11-28 00:00"), Failures: 1000}, at("2026-11-28 00:30")},
	} {
		got := timetable(t, test.schedule, test.zone).Due("uid", test.past)
		if early := got.Sub(test.want); early < 0 || early > mostJitter || test.past.Failures > 0 && early != 0 {
			t.Errorf("%s: %s, want %s", name, got.UTC(), test.want)
		}
	}
}

// TestLate: a backup counts as late after two intervals.
func TestLate(t *testing.T) {
	hourly := timetable(t, "@hourly", "")
	for now, late := range map[string]bool{"2026-11-27 13:00": false, "2026-11-27 14:05": false, "2026-11-27 14:06": true} {
		if got := hourly.Late(at("2026-11-27 12:01"), at(now)); got != late {
			t.Errorf("%s: %t", now, got)
		}
	}
	if !hourly.Late(time.Time{}, at("2026-11-27 12:00")) {
		t.Error("no backup at all is not late")
	}
}

// The fleet of TestFleet, and how many backups its manager takes at the same time.
const (
	fleet    = 500
	atOnce   = 4
	longest  = 25 * time.Second
	fleetDay = 24 * time.Hour
)

// event is a moment in a day of a fleet: a cluster's backup is due, or has ended.
type event struct {
	at      time.Time
	cluster int
	ends    bool
}

type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at.Before(e[j].at) }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// TestFleet: 500 clusters with a schedule each are backed up for a day by a manager that takes four backups at a time, in the order in
// which they are due. Some fail. None is late by more than an interval, and the work is spread over each hour.
func TestFleet(t *testing.T) {
	random := rand.New(rand.NewPCG(45, 4))
	schedules := []Timetable{timetable(t, "@hourly", ""), timetable(t, "0 */6 * * *", "Asia/Tokyo"), timetable(t, "15,45 * * * *", ""),
		timetable(t, "@daily", "")}
	begin := at("2026-11-27 00:00")
	var queue events
	past := make([]Past, fleet)
	due := func(i int) {
		heap.Push(&queue, event{schedules[i%len(schedules)].Due(fmt.Sprint("cluster-", i), past[i]), i, false})
	}
	for i := range fleet {
		past[i] = Past{Attempted: begin}
		due(i)
	}
	var waiting []event
	running, most, late, taken := 0, 0, 0, 0
	for queue.Len() > 0 {
		e := heap.Pop(&queue).(event)
		if e.at.After(begin.Add(fleetDay)) {
			break
		}
		if e.ends {
			running--
			due(e.cluster)
		} else {
			waiting = append(waiting, e)
		}
		for ; running < atOnce && len(waiting) > 0; running++ {
			next := waiting[0]
			waiting = waiting[1:]
			p := &past[next.cluster]
			if s := schedules[next.cluster%len(schedules)]; !p.Taken.IsZero() && e.at.Sub(next.at) > s.Interval(next.at) {
				late++
			}
			p.Attempted, p.Failures = e.at, p.Failures+1
			if random.IntN(20) > 0 {
				p.Taken, p.Failures = e.at, 0
				taken++
			}
			most = max(most, running+1)
			heap.Push(&queue, event{e.at.Add(time.Duration(random.Int64N(int64(longest)))), next.cluster, true})
		}
	}
	t.Logf("%d backups in a day, %d at once, %d late by more than an interval", taken, most, late)
	if most > atOnce || late > 0 || taken < fleet/4*(24+4+48+1)*9/10 {
		t.Errorf("%d at once (at most %d), %d late, %d taken", most, atOnce, late, taken)
	}
}
