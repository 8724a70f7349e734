package sim

import (
	"testing"
	"time"
)

// hibernatable is a group with workers that a person switches off and on.
func hibernatable(replicas int, events ...Event) Setup {
	return Setup{
		Replicas: replicas, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always, Recovers: true, Hibernates: true, Workers: true,
		Script: events,
	}
}

// asleepAt is an hour after which a group is to hibernate, awakeAt one after which it is to run again.
func asleepAt(at time.Duration) Event { return Event{At: at, Kind: Hibernate} }
func awakeAt(at time.Duration) Event  { return Event{At: at, Kind: WakeUp} }

// hibernated are worlds that must run again as wanted, soon after the last event.
var hibernated = []struct {
	name   string
	setup  Setup
	within time.Duration
}{
	{"three", hibernatable(3, asleepAt(time.Hour), awakeAt(5*time.Hour)), 45 * time.Minute},
	{"the only one", hibernatable(1, asleepAt(time.Hour), awakeAt(5*time.Hour)), 45 * time.Minute},
	{"twice", hibernatable(3, asleepAt(time.Hour), awakeAt(2*time.Hour), asleepAt(3*time.Hour), awakeAt(4*time.Hour)), 45 * time.Minute},
	{"a changed mind while workers go", hibernatable(3, asleepAt(time.Hour), awakeAt(time.Hour+8*time.Second)), 10 * time.Minute},
	{"a changed mind while machines go", hibernatable(3, asleepAt(time.Hour),
		Event{At: time.Hour + time.Second, Kind: StoreSlow, For: time.Minute}, awakeAt(time.Hour+3*time.Minute)), 40 * time.Minute},
	{"a changed mind while it wakes", hibernatable(3, asleepAt(time.Hour), awakeAt(2*time.Hour), asleepAt(2*time.Hour+90*time.Second),
		awakeAt(4*time.Hour)), 45 * time.Minute},
	{"the store is down when it is to hibernate", hibernatable(3, asleepAt(time.Hour), Event{At: time.Hour, Kind: StoreDown, For: time.Hour},
		awakeAt(5*time.Hour)), 45 * time.Minute},
	{"the store is down when it is to wake", hibernatable(3, asleepAt(time.Hour), awakeAt(5*time.Hour),
		Event{At: 5 * time.Hour, Kind: StoreDown, For: time.Hour}), 105 * time.Minute},
	{"the controller dies again and again", hibernatable(3, asleepAt(time.Hour), Event{At: time.Hour + 30*time.Second, Kind: Restart},
		Event{At: time.Hour + 2*time.Minute, Kind: Restart}, awakeAt(5*time.Hour), Event{At: 5*time.Hour + 30*time.Second, Kind: Restart},
		Event{At: 5*time.Hour + 100*time.Second, Kind: Restart}), 45 * time.Minute},
	{"a machine breaks before", hibernatable(3, lost(2), asleepAt(time.Hour+time.Second), awakeAt(5*time.Hour)), 45 * time.Minute},
	{"the number changes meanwhile", hibernatable(3, asleepAt(time.Hour), Event{At: 2 * time.Hour, Kind: Scale, N: 1}, awakeAt(5*time.Hour)),
		45 * time.Minute},
	{"the spec changes meanwhile", hibernatable(3, asleepAt(time.Hour), Event{At: 2 * time.Hour, Kind: Change, N: 2}, awakeAt(5*time.Hour)),
		45 * time.Minute},
}

// TestHibernationsByName lets groups be switched off and on, each with many seeds.
func TestHibernationsByName(t *testing.T) {
	for _, n := range hibernated {
		t.Run(n.name, func(t *testing.T) {
			for seed := range int64(100) {
				s := n.setup
				s.Seed = seed
				if err := ends(s, n.within, nil); err != nil {
					story := &Story{}
					t.Fatalf("seed %d: %v\n%s", seed, ends(s, n.within, story), story)
				}
			}
		})
	}
}

// TestHibernationsHappen: enough worlds come as far as each part of a hibernation.
func TestHibernationsHappen(t *testing.T) {
	least := tally{"slept": 150, "woke": 80, "cancelled": 40, "rests without a machine": 20}
	got := tally{}
	const worlds = 400
	for seed := range int64(worlds) {
		w := New(Hibernated(seed))
		if _, err := w.live(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got.count("slept", w.power.slept > 0)
		got.count("woke", w.power.woke > 0)
		got.count("cancelled", w.power.cancelled > 0)
		got.count("rests without a machine", len(w.hosts) == 0 && w.power.hibernate)
	}
	t.Log(got)
	for what, n := range least {
		if got[what] < n {
			t.Errorf("%s: %d times, at least %d are expected of %d worlds", what, got[what], n, worlds)
		}
	}
}
