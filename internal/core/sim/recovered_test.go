package sim

import (
	"testing"
	"time"
)

// recoverable is a group with a person who recovers it, and a backup of before.
func recoverable(replicas int, events ...Event) Setup {
	return Setup{
		Replicas: replicas, Surge: 1, Domains: abc, Places: true, Checks: true, Repair: always, Recovers: true,
		Recoverer: Recoverer{After: time.Minute, Reads: 30 * time.Second, Off: 5 * time.Minute, Tries: 1},
		Script:    append([]Event{{At: 15 * time.Minute, Kind: TakeOne}}, events...),
	}
}

// lost is the loss of a machine.
func lost(n int) Event { return Event{At: time.Hour, Kind: Kill, N: n} }

// neverGoing leaves the infrastructure of machines where it is, however often it is to be deleted.
func neverGoing(s Setup, machines ...int) Setup {
	s.Remains = map[int]bool{}
	for _, n := range machines {
		s.Remains[n] = true
	}
	return s
}

// ofEtcd makes a group one of machines of etcd alone.
func ofEtcd(s Setup) Setup {
	s.makeEtcdOnly()
	return s
}

// withoutKubeconfig deletes the kubeconfig again and again while the recovery of a loss is prepared, begins and waits.
func withoutKubeconfig() []Event {
	var all []Event
	for after := 2 * time.Minute; after < 4*time.Minute; after += 10 * time.Second {
		all = append(all, Event{At: time.Hour + after, Kind: NoKubeconfig})
	}
	return all
}

// recovered are worlds that must be as wanted after a recovery, soon after the last event.
var recovered = []struct {
	name   string
	setup  Setup
	within time.Duration
}{
	{"of three one is left", recoverable(3, lost(2), lost(3)), 30 * time.Minute},
	{"of five two are left, and another returns after the end", recoverable(5, lost(1), lost(2),
		Event{At: time.Hour, Kind: Freeze, N: 4, For: 2 * time.Hour}), 3 * time.Hour},
	{"all are lost, and there is a backup", recoverable(3, lost(1), lost(2), lost(3)), 30 * time.Minute},
	{"the only one is lost, and there is a backup", recoverable(1, lost(1)), 30 * time.Minute},
	{"all machines are deleted without their hooks", recoverable(3,
		Event{At: time.Hour, Kind: ForceDelete, N: 1}, Event{At: time.Hour, Kind: ForceDelete, N: 2},
		Event{At: time.Hour, Kind: ForceDelete, N: 3}), 30 * time.Minute},
	{"the store is down when the quorum is lost", recoverable(3,
		Event{At: time.Hour, Kind: StoreDown, For: 20 * time.Minute}, lost(2), lost(3)), time.Hour},
	{"the kubeconfig is missing, as in another management cluster", recoverable(3, append([]Event{lost(1), lost(2), lost(3)},
		withoutKubeconfig()...)...), 30 * time.Minute},
	{"the infrastructure of two never goes, and a person declares them off", neverGoing(recoverable(3, lost(1), lost(2), lost(3)), 1, 2),
		time.Hour},
	{"machines of etcd alone, of three one is left", ofEtcd(recoverable(3, lost(2), lost(3))), 30 * time.Minute},
	{"machines of etcd alone, all are lost, and there is a backup", ofEtcd(recoverable(3, lost(1), lost(2), lost(3))), 30 * time.Minute},
	{"machines of etcd alone, the only one is lost, and there is a backup", ofEtcd(recoverable(1, lost(1))), 30 * time.Minute},
	{"machines of etcd alone, the infrastructure of two never goes, and a person declares them off",
		ofEtcd(neverGoing(recoverable(3, lost(1), lost(2), lost(3)), 1, 2)), time.Hour},
	{"the controller starts anew in the middle", recoverable(3, lost(2), lost(3),
		Event{At: time.Hour + 2*time.Minute, Kind: Restart}, Event{At: time.Hour + 150*time.Second, Kind: Restart}), 30 * time.Minute},
}

// TestRecoveriesByName lets groups be recovered, each with many seeds.
func TestRecoveriesByName(t *testing.T) {
	for _, n := range recovered {
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

// tally counts how often something happened.
type tally map[string]int

// count counts once what is.
func (c tally) count(what string, is bool) {
	if is {
		c[what]++
	}
}

// happens lets so many of the worlds of TestRecoveredWorlds live and counts in each what happened. What happened less often than it must is
// an error: what is judged there would be judged of nothing.
func happens(t *testing.T, worlds int64, least tally, of func(w *World, got tally)) {
	t.Helper()
	got := tally{}
	for seed := range worlds {
		w := New(Recovered(seed))
		if _, err := w.live(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		of(w, got)
	}
	t.Log(got)
	for what, n := range least {
		if got[what] < n {
			t.Errorf("%s: %d times, at least %d are expected of %d worlds", what, got[what], n, worlds)
		}
	}
}

// TestRecoveriesHappen: enough worlds come as far as each part of a recovery.
func TestRecoveriesHappen(t *testing.T) {
	least := tally{
		"approved": 200, "begun": 150, "ended": 120, "planted": 120, "planted twice": 5, "declared off": 20, "returned after the end": 5,
		"grown after it": 100, "approved as it was before": 1, "ended of etcd alone": 25,
	}
	happens(t, 600, least, func(w *World, got tally) {
		for _, x := range w.recoveries.all {
			got.count("approved", x.approved != "")
			got.count("begun", x.begun)
			got.count("ended", x.ended)
			got.count("ended of etcd alone", x.ended && w.setup.EtcdOnly)
			got.count("declared off", x.ended && len(x.off) > 0)
			got.count("approved as it was before", x.approved != "" && !x.isApproved())
		}
		got.count("planted", w.recoveries.cluster > 0)
		got.count("planted twice", w.recoveries.cluster > 1)
		for _, m := range w.recoveries.retired {
			got.count("returned after the end", m.running)
		}
		for _, h := range w.hosts {
			got.count("grown after it", w.recoveries.cluster > 0 && h.seededBy == 0 && h.stage == up && !h.deleting)
		}
	})
}

// TestRetentionHappens: in enough worlds old backups are deleted, beside people and other managers, and deletions of the group wait for a
// last backup, get one, or are no longer waited for.
func TestRetentionHappens(t *testing.T) {
	least := tally{
		"deleted": 500, "some deleted": 200, "somebody else deleted one": 50, "deleted after a recovery": 50,
		"a last backup taken": 20, "a last backup given up": 10,
	}
	happens(t, 1500, least, func(w *World, got tally) {
		a := &w.archive
		got["deleted"] += a.deleted
		got.count("some deleted", a.deleted > 0)
		got.count("somebody else deleted one", !a.robbed.IsZero())
		got.count("deleted after a recovery", a.deleted > 0 && w.recoveries.cluster > 0)
		got.count("a last backup taken", w.finished && !a.last.IsZero())
		got.count("a last backup given up", w.finished && w.setup.LastBackup && w.initialised && a.last.IsZero())
	})
}
