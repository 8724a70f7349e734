package sim

import (
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// live runs one world and tells its story if it goes wrong.
func live(t *testing.T, s Setup) {
	t.Helper()
	if _, err := Live(s, nil); err != nil {
		story := &Story{}
		Live(s, story)
		t.Fatalf("%v\n%+v\n%s", err, s, story)
	}
}

// TestDeathAtEveryMoment: a group is created, grows and shrinks, and every machine
// in turn dies at every moment of it.
func TestDeathAtEveryMoment(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for at := time.Second; at < 12*time.Minute; at += 7 * time.Second {
			s := Setup{Seed: 9, Replicas: 3, Domains: abc, Places: n%2 == 0, Checks: true, Repair: always}
			s.Script = inOrder(Event{At: at, Kind: Kill, N: n},
				Event{At: 4 * time.Minute, Kind: Scale, N: 5}, Event{At: 8 * time.Minute, Kind: Scale, N: 3})
			live(t, s)
		}
	}
}

// TestDeletionAtEveryMoment: somebody deletes the first machine, at every moment at
// which others join that may know no other.
func TestDeletionAtEveryMoment(t *testing.T) {
	for seed := range int64(3) {
		for at := 20 * time.Second; at < 3*time.Minute; at += time.Second {
			live(t, Setup{Seed: seed, Replicas: 5, Domains: abc, Places: true, Script: []Event{{At: at, Kind: DeleteMachine, N: 1}}})
		}
	}
}

// TestRestartAtEveryMoment: the controller starts again at every moment, twice, and
// a machine is deleted meanwhile.
func TestRestartAtEveryMoment(t *testing.T) {
	for at := time.Second; at < 10*time.Minute; at += 3 * time.Second {
		s := Setup{Seed: 9, Replicas: 3, Domains: abc, Places: true}
		s.Script = inOrder(Event{At: at, Kind: Restart}, Event{At: at + 25*time.Second, Kind: Restart},
			Event{At: 3 * time.Minute, Kind: ForceDelete, N: 2}, Event{At: 6 * time.Minute, Kind: Scale, N: 1})
		live(t, s)
	}
}

// TestEveryFate: every machine in turn dies or hangs at every stage, while others
// join at once or one by one, and whether the provider says so or not.
func TestEveryFate(t *testing.T) {
	for n := 1; n <= 4; n++ {
		for stage := booting; stage <= settling; stage++ {
			for variant := range 16 {
				live(t, Setup{
					Seed: int64(variant), Replicas: 3, Domains: abc, MaxParallel: variant & 1,
					Checks: true, Repair: always, Places: variant&2 > 0, Reports: variant&4 > 0, Serial: variant == 15,
					Fates:  map[int]Fate{n: {At: stage, Dies: variant&8 > 0}},
					Script: []Event{{At: 15 * time.Minute, Kind: Scale, N: 5}},
				})
			}
		}
	}
}

// TestDeathInARollout: every machine in turn dies at every moment of a rollout, with one
// more than wanted: the quorum is never lost, whether a health check looks on or not.
func TestDeathInARollout(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for at := 4 * time.Minute; at < 10*time.Minute; at += 4 * time.Second {
			s := Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: true, Sturdy: true, Checks: n%2 == 0, Repair: always}
			s.Script = inOrder(Event{At: 4 * time.Minute, Kind: Change, N: 2}, Event{At: at, Kind: Kill, N: n})
			live(t, s)
		}
	}
}

// TestChangeAtEveryMoment: the spec is changed again, or back, at every moment of a
// rollout, be its first machine good or bad in any way, with surge and without.
func TestChangeAtEveryMoment(t *testing.T) {
	for fate := booting; fate <= up+1; fate++ {
		for at := 4 * time.Minute; at < 9*time.Minute; at += 11 * time.Second {
			for variant := range 4 {
				s := Setup{Seed: 9, Replicas: 3, Surge: variant & 1, Domains: abc, Places: true, Bad: map[int]Fate{2: {At: fate, Sick: variant&1 > 0}}}
				s.Script = inOrder(Event{At: 4 * time.Minute, Kind: Change, N: 2}, Event{At: at, Kind: Change, N: 1 + variant&2})
				live(t, s)
			}
		}
	}
}

// TestElectionAtEveryMoment: the lead goes to the newest machine at every moment of a rollout of which no
// machine comes further than a stage, until the spec is changed back.
func TestElectionAtEveryMoment(t *testing.T) {
	for fate := syncing; fate <= up; fate++ {
		for at := 4 * time.Minute; at < 8*time.Minute; at += 5 * time.Second {
			for variant := range 4 {
				s := Setup{Seed: 9, Replicas: 3, Surge: variant & 1, Domains: abc, Places: variant&2 > 0, Bad: map[int]Fate{2: {At: fate}}}
				s.Script = inOrder(Event{At: 4 * time.Minute, Kind: Change, N: 2}, Event{At: at, Kind: Elect, N: 4},
					Event{At: 7 * time.Minute, Kind: Change, N: 1})
				live(t, s)
			}
		}
	}
}

// TestLostLabelsAtEveryMoment: every machine in turn loses its labels for a while, at every moment at which
// a group comes up and grows.
func TestLostLabelsAtEveryMoment(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for at := 20 * time.Second; at < 6*time.Minute; at += 3 * time.Second {
			s := Setup{Seed: 9, Replicas: 3, Surge: 1, Domains: abc, Places: n%2 == 0}
			s.Script = inOrder(Event{At: at, Kind: Hide, N: n, For: 10 * time.Minute}, Event{At: 4 * time.Minute, Kind: Scale, N: 5})
			live(t, s)
		}
	}
}

// TestHangAtEveryMoment: etcd on every machine in turn stands still, at every moment at
// which a group of three grows and shrinks. etcd does not notice, and lets anybody go.
func TestHangAtEveryMoment(t *testing.T) {
	for n := 1; n <= 4; n++ {
		for at := 20 * time.Second; at < 11*time.Minute; at += 5 * time.Second {
			s := Setup{Seed: 9, Replicas: 3, Domains: abc, Places: n%2 == 0, Lenient: true, Checks: true, Repair: always}
			s.Script = inOrder(Event{At: at, Kind: Hang, N: n, For: 90 * time.Second},
				Event{At: 4 * time.Minute, Kind: Scale, N: 5}, Event{At: 8 * time.Minute, Kind: Scale, N: 1})
			live(t, s)
		}
	}
}

// TestTheDeadGoFirst: who lives and who is dead could go at the same moment, because a pause has
// just ended: as machines that are being deleted, that are marked, and as members without a machine.
func TestTheDeadGoFirst(t *testing.T) {
	first := func(at time.Duration, kind Kind, n int) Event {
		return Event{At: at, Kind: kind, N: n, For: 7 * time.Minute}
	}
	for _, events := range [][]Event{
		{first(0, Kill, 3), first(10*time.Second, Pause, 0), first(20*time.Second, DeleteMachine, 2), first(21*time.Second, DeleteMachine, 3)},
		{first(0, Kill, 3), first(10*time.Second, Pause, 0), first(20*time.Second, Mark, 2), first(21*time.Second, Mark, 3)},
		{first(0, Pause, 0), first(time.Second, ForceDelete, 3), first(2*time.Second, Hide, 2)},
	} {
		for seed := range int64(40) {
			s := Setup{Seed: seed, Replicas: 5, Domains: abc, Surge: 1, Places: seed%2 == 0, Checks: true, Repair: always}
			for _, e := range events {
				e.At += time.Hour
				s.Script = append(s.Script, e)
			}
			live(t, s)
		}
	}
}

// dues are what makes something due on one machine.
var dues = [][]Kind{
	{DeleteMachine}, {Kill, DeleteMachine}, {Mark}, {Kill, Mark}, {StopEtcd, Mark}, {ForceDelete}, {Hide}, {StopEtcd, Hide}, {Reidentify},
	{AddMember},
}

// TestAllDueAtOnce: two things become due while the cluster is paused, so that the rules find both when the pause
// is over; and beside them, or not, a machine that nothing holds any more joins as a learner meanwhile.
func TestAllDueAtOnce(t *testing.T) {
	for _, first := range dues {
		for _, second := range dues {
			for seed := range int64(8) {
				n := 5 + 2*int(seed&1)
				s := Setup{Seed: seed, Replicas: n, Surge: 1, MaxParallel: 1, Domains: abc, Places: seed&2 > 0, Lenient: true, Checks: true,
					Repair: always, Leave: 30 * time.Minute}
				s.Script = []Event{{At: time.Hour + 3*time.Second, Kind: Pause, For: 5 * time.Minute}}
				if seed&4 > 0 {
					s.Fates = map[int]Fate{n + 1: {At: syncing}}
					s.Script = []Event{{At: time.Hour, Kind: Scale, N: n + 2}, s.Script[0], {At: time.Hour + 4*time.Second, Kind: ForceDelete, N: n + 1}}
				}
				s.Script = append(s.Script, due(time.Hour+5*time.Second, first, 1)...)
				s.Script = append(s.Script, due(time.Hour+3*time.Minute, second, 2)...)
				live(t, s)
			}
		}
	}
}

// due are such events for a machine, a second after one another.
func due(at time.Duration, kinds []Kind, n int) []Event {
	var events []Event
	for i, kind := range kinds {
		events = append(events, Event{At: at + time.Duration(i)*time.Second, Kind: kind, N: n, For: 20 * time.Minute})
	}
	return events
}

// TestLenientEtcd runs random worlds with an etcd that takes a new member while a voter is away.
func TestLenientEtcd(t *testing.T) {
	for seed := range int64(2000) {
		s := Random(seed)
		s.Lenient = true
		live(t, s)
	}
}

// TestDowngradeAtEveryMoment: etcd of a group of its kind is taken to an older minor version, and at every moment of it a machine dies or
// is away, the user takes it back, or the controller starts again.
func TestDowngradeAtEveryMoment(t *testing.T) {
	const begin = 4 * time.Minute
	for at := begin; at < begin+5*time.Minute; at += 2 * time.Second {
		for n, e := range []Event{
			{Kind: Kill, N: 1}, {Kind: Kill, N: 2}, {Kind: Kill, N: 4}, {Kind: Kill, N: 5}, {Kind: DeleteMachine, N: 4},
			{Kind: Crash, N: 3, For: time.Minute},
			{Kind: Crash, N: 4, For: time.Minute}, {Kind: Hang, N: 1, For: time.Minute}, {Kind: Change, N: 1}, {Kind: Change, N: 3}, {Kind: Restart},
			{Kind: Scale, N: 5},
			{Kind: Pause, For: 5 * time.Minute}, {Kind: Mark, N: 4},
		} {
			s := Setup{Seed: int64(n), Replicas: 3, Surge: n % 2, Domains: abc, Checks: true, Repair: always, Minors: map[int]int{1: 6, 2: 5, 3: 6}}
			s.makeEtcdOnly()
			e.At = at
			s.Script = inOrder(Event{At: begin, Kind: Change, N: 2}, e)
			live(t, s)
		}
	}
}

// TestDowngradeOfJoiners: an older minor version of etcd is wanted at every moment at which a group comes up, and moments later the only
// voter is to go.
func TestDowngradeOfJoiners(t *testing.T) {
	for at := 5 * time.Second; at < 4*time.Minute; at += 2 * time.Second {
		for _, after := range []time.Duration{0, 6 * time.Second, time.Minute} {
			s := Setup{Seed: int64(at / time.Second), Replicas: 3, Surge: 1, Domains: abc, Checks: true, Repair: always,
				Minors: map[int]int{1: 6, 2: 5}}
			s.makeEtcdOnly()
			s.Script = []Event{{At: at, Kind: Change, N: 2}, {At: at + after, Kind: DeleteMachine, N: 1}}
			live(t, s)
		}
	}
}

// TestUpdateAtEveryMoment: machines are updated in place, and at every moment of it a machine dies, is away, cordoned, marked or deleted,
// another or the same spec is wanted, the policy changes, or the controller starts again; with an update that hangs or fails now and then.
func TestUpdateAtEveryMoment(t *testing.T) {
	const begin = 10 * time.Minute
	for at := begin; at < begin+5*time.Minute; at += 3 * time.Second {
		for n, e := range []Event{
			{Kind: Kill, N: 1}, {Kind: Kill, N: 2}, {Kind: Kill, N: 3}, {Kind: Reboot, N: 2, For: 2 * time.Minute},
			{Kind: Unready, N: 3, For: 4 * time.Minute}, {Kind: Mark, N: 2},
			{Kind: DeleteMachine, N: 1}, {Kind: DeleteMachine, N: 2}, {Kind: ForceDelete, N: 3}, {Kind: Change, N: 1}, {Kind: Change, N: 3},
			{Kind: Scale, N: 5}, {Kind: Scale, N: 1},
			{Kind: SetInPlace, N: 0}, {Kind: SetInPlace, N: 3}, {Kind: Restart}, {Kind: Pause, For: 5 * time.Minute},
			{Kind: Crash, N: 3, For: time.Minute}, {Kind: DeleteGroup}, {Kind: SetUpdater, N: 1},
		} {
			s := Setup{Seed: int64(at/time.Second) + int64(n), Replicas: 3, Surge: n % 2, Domains: abc, Places: true, Checks: true, Repair: always}
			s.InPlace, s.UpdateFails = plan.InPlacePreferred, 20*(n%2)
			if n%3 == 0 {
				s.InPlace = plan.InPlaceOnly
			}
			e.At = at
			s.Script = inOrder(Event{At: begin, Kind: Change, N: 2}, e)
			live(t, s)
		}
	}
}

// TestSingleUpdateAtEveryMoment: the only machine is updated, and at every moment of it something happens to it or to what is wanted.
func TestSingleUpdateAtEveryMoment(t *testing.T) {
	const begin = 5 * time.Minute
	for at := begin; at < begin+3*time.Minute; at += 2 * time.Second {
		for n, e := range []Event{
			{Kind: Reboot, N: 1, For: time.Minute}, {Kind: Crash, N: 1, For: time.Minute}, {Kind: Mark, N: 1}, {Kind: DeleteMachine, N: 1},
			{Kind: Change, N: 1}, {Kind: Change, N: 3},
			{Kind: Scale, N: 3}, {Kind: SetInPlace, N: 0}, {Kind: Restart}, {Kind: Pause, For: 5 * time.Minute}, {Kind: Kill, N: 1},
		} {
			s := Setup{Seed: int64(at/time.Second) + int64(n), Replicas: 1, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always,
				InPlace: plan.InPlacePreferred, UpdateFails: 20 * (n % 2)}
			e.At = at
			s.Script = inOrder(Event{At: begin, Kind: Change, N: 2}, e)
			live(t, s)
		}
	}
}

// TestBlinkAtEveryMoment: of machines that came up a moment ago one does not work, or cannot be asked, for a moment, while all of them are
// outdated and nobody has approved that, or no more may be replaced that day. It came up, and is not replaced like one that never did.
func TestBlinkAtEveryMoment(t *testing.T) {
	for at := 2 * time.Minute; at < 8*time.Minute; at += 15 * time.Second {
		for n, e := range []Event{
			{Kind: BlindMember, N: 3, For: 22 * time.Second}, {Kind: Crash, N: 2, For: 20 * time.Second}, {Kind: Silent, N: 3, For: 2 * time.Minute},
			{Kind: APIDown, N: 2, For: 20 * time.Second}, {Kind: Sicken, N: 3, For: 20 * time.Second}, {Kind: Hide, N: 2, For: 20 * time.Second},
		} {
			for kind := range 3 {
				s := Setup{Seed: int64(at/time.Second) + int64(n), Replicas: 3, Surge: 0, Domains: abc, Places: true, Checks: true, Repair: always,
					External: kind == 1}
				if kind == 2 {
					s.makeEtcdOnly()
				}
				e.At = at
				s.Approval = true
				s.Script = inOrder(Event{At: 100 * time.Second, Kind: Change, N: 2}, e)
				live(t, s)
				// The newest machine is outdated once more, a moment after it took the place of the only one that may be replaced that day.
				s.Approval, s.Limit = false, 1
				e.At, e.N = at+6*time.Minute, 4
				s.Script = inOrder(Event{At: 6 * time.Minute, Kind: Change, N: 2}, Event{At: e.At - 5*time.Second, Kind: Change, N: 3}, e)
				live(t, s)
			}
		}
	}
}
