package sim

import (
	"testing"
	"time"
)

// TestTidied: members whose data take more than they need are defragmented at rest, one after the other, by the spec or because a person
// asked for it; while one is down, or a window is closed, none is, and afterwards the others are.
func TestTidied(t *testing.T) {
	at := 10 * time.Minute
	soon := at + 9*time.Second
	loosen := []Event{{At: at, Kind: Loosen, N: 1}, {At: at, Kind: Loosen, N: 2}, {At: at, Kind: Loosen, N: 3}}
	after := func(events ...Event) []Event { return inOrder(append(append([]Event{}, loosen...), events...)...) }
	spec := func(takes time.Duration) Tidy { return Tidy{Percent: 45, Takes: takes} }
	for name, s := range map[string]Setup{
		"by the spec":           {Replicas: 3, Tidy: spec(0), Script: after()},
		"slowly":                {Replicas: 3, Tidy: spec(5 * time.Minute), Script: after()},
		"while one is down":     {Replicas: 3, Tidy: spec(time.Minute), Script: after(Event{At: at, Kind: Crash, N: 3, For: 9 * time.Minute})},
		"one is silent":         {Replicas: 3, Tidy: spec(time.Minute), Script: after(Event{At: soon, Kind: Hang, N: 3, For: time.Hour})},
		"by a person":           {Replicas: 3, Tidy: Tidy{Takes: time.Minute}, Script: after(Event{At: at + time.Minute, Kind: AskDefragment})},
		"of one, by a person":   {Replicas: 1, Script: after(Event{At: at + time.Minute, Kind: AskDefragment})},
		"of one, by the spec":   {Replicas: 1, Tidy: Tidy{Percent: 45, Single: true}, Script: after()},
		"in a rollout":          {Replicas: 3, Tidy: spec(time.Minute), Script: after(Event{At: at + 2*time.Second, Kind: Change, N: 2})},
		"controllers forget it": {Replicas: 3, Tidy: spec(time.Minute), Script: after(Event{At: at + 20*time.Second, Kind: Restart})},
	} {
		s.Surge, s.Domains, s.Places, s.Checks, s.Repair = 1, abc, true, true, always
		for seed := range int64(30) {
			s.Seed = seed
			w := New(s)
			w.story = &Story{}
			_, err := w.live()
			if err == nil {
				err = w.AsWanted()
			}
			if err != nil {
				t.Fatalf("%s, seed %d: %v\n%s", name, seed, err, w.story)
			}
			for m, loose := range w.tidy.loose {
				if loose && !m.removed {
					t.Fatalf("%s, seed %d: the data of %s still take more than they need\n%s", name, seed, m.host.name, w.story)
				}
			}
		}
	}
}
