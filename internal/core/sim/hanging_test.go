package sim

import (
	"fmt"
	"testing"
	"time"
)

// goesWithin is how soon a machine that hangs must be gone, beside what infrastructure takes.
const goesWithin = time.Minute

// leaves is what infrastructure takes in these worlds.
const leaves = 10 * time.Second

// TestHangingMachineGoes: a machine that hangs as second of three is gone within a minute after somebody has marked, deleted or outdated
// it, although it may join half an hour later, and its late voter would cost the quorum. The controller dies after each step, or not, and
// steps are done twice.
func TestHangingMachineGoes(t *testing.T) {
	for _, way := range []Kind{Mark, DeleteMachine, Change} {
		for _, luck := range []Luck{{}, {Repeated: 100}, {CutShort: 30}, {Stale: 50, Dropped: 20}} {
			for seed := range int64(20) {
				s := Setup{Seed: seed, Replicas: 3, Surge: 1, Domains: abc, Places: seed%2 == 0, MaxParallel: 1, Luck: luck,
					Boots: map[int]time.Duration{2: 25 * time.Minute}}
				given := 5 * time.Minute
				s.Script = []Event{{At: given, Kind: way, N: 2}}
				w := New(s)
				w.story = &Story{}
				if _, err := w.live(); err != nil {
					t.Fatalf("%s, seed %d: %v\n%s", way, seed, err, w.story)
				}
				if w.went[2] == 0 && luck.CutShort > 0 {
					continue // its number was lost as the controller died
				}
				if took := w.went[2] - given; took <= 0 || took > goesWithin+leaves {
					t.Fatalf("%s, seed %d, %+v: the machine was gone after %s\n%s", way, seed, luck, took, w.story)
				}
			}
		}
	}
}

// TestHangingMachineAtEveryMoment: the controller starts again at every moment while a hanging machine goes, so that each half of what it
// does is found again: no placeholder is left, and the machine does not join.
func TestHangingMachineAtEveryMoment(t *testing.T) {
	for at := 5 * time.Minute; at < 6*time.Minute; at += time.Second {
		for _, way := range []Kind{Mark, DeleteMachine, Change} {
			s := Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, MaxParallel: 1,
				Boots: map[int]time.Duration{2: at - 40*time.Second}, Leave: 2 * time.Minute}
			s.Script = inOrder(Event{At: 5 * time.Minute, Kind: way, N: 2}, Event{At: at, Kind: Restart}, Event{At: at + time.Second, Kind: Restart})
			t.Run(fmt.Sprint(way, at), func(t *testing.T) { live(t, s) })
		}
	}
}
