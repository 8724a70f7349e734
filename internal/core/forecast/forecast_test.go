package forecast_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/forecast"
	"github.com/quorate/quorate/internal/core/plan"
)

// three is a group of three machines on which all is well.
func three(change func(*plan.Observed)) plan.Observed {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	o := plan.Observed{
		Now:     now,
		Group:   plan.Group{Name: "cp", Initialized: true, LastMachine: 3},
		Want:    plan.Want{Replicas: 3, NameFormat: "cp-%s"},
		Policy:  plan.Policy{Learners: true, Surge: 1},
		Cluster: plan.Cluster{Infrastructure: true, Endpoint: "10.0.0.1:6443", Reachable: true},
		Etcd:    plan.Etcd{Owner: plan.EtcdOurs, Known: true, Agreed: true},
	}
	for i, name := range []string{"cp-1", "cp-2", "cp-3"} {
		o.Machines = append(o.Machines, plan.Machine{Name: name, Host: name, Created: now.Add(time.Duration(i-60) * time.Minute),
			UpSince: now.Add(time.Duration(i-59) * time.Minute),
			Ready:   true, Hook: true, Components: []plan.Component{{Name: "kube-apiserver", Health: plan.Healthy}}})
		o.Etcd.Members = append(o.Etcd.Members, plan.Member{ID: string(rune('a' + i)), Name: name, Machine: name, Health: plan.Healthy,
			Leader: i == 0, Since: now.Add(-time.Hour)})
	}
	change(&o)
	return o
}

// TestOf forecasts what becomes of machines, how strong the group is meanwhile, and what ends it.
func TestOf(t *testing.T) {
	version := func(o *plan.Observed) {
		for i := range o.Machines {
			o.Machines[i].Outdated = "version v1.35.4, v1.36.3 is wanted"
		}
	}
	for _, test := range []struct {
		name   string
		change func(*plan.Observed)
		fates  string
		// most machines, least spare, steps
		most, spare, steps int
		end                string
	}{
		{"nothing to do", func(*plan.Observed) {}, "cp-1 Keep, cp-2 Keep, cp-3 Keep", 3, 1, 0, "AsWanted"},
		{"rollout", version, "cp-1 Replace, cp-2 Replace, cp-3 Replace, cp-4 Add, cp-5 Add, cp-6 Add", 4, 1, 13, "AsWanted"},
		{"rollout without surge", func(o *plan.Observed) { version(o); o.Policy.Surge = 0 },
			"cp-1 Replace, cp-2 Replace, cp-3 Replace, cp-4 Add, cp-5 Add, cp-6 Add", 3, 0, 13, "AsWanted"},
		{"in place", func(o *plan.Observed) { version(o); o.Policy.InPlace = plan.InPlaceOnly }, "cp-1 Update, cp-2 Update, cp-3 Update", 3, 0, 7,
			"AsWanted"},
		{"down to one", func(o *plan.Observed) { o.Want.Replicas = 1 }, "cp-1 Remove, cp-2 Remove, cp-3 Keep", 3, 0, 7, "AsWanted"},
		{"a marked machine", func(o *plan.Observed) {
			o.Machines[1].Marked = "its Node is not ready"
			o.Policy.Repair = plan.RepairLimits{Most: -1}
		}, "cp-1 Keep, cp-2 Replace, cp-3 Keep, cp-4 Add", 3, 0, 4, "AsWanted"},
		{"a recovery by a seed", func(o *plan.Observed) {
			for i := range o.Etcd.Members[1:] {
				o.Etcd.Members[i+1].Health = plan.Unhealthy
			}
			o.Cluster.Reachable = false
			o.Recovery = plan.Recovery{Name: "r", Seed: "b", Approved: o.Now, GiveUp: []string{"cp-1", "cp-2", "cp-3"}}
		}, "cp-1 Remove, cp-2 Remove, cp-3 Remove, cp-4 Add, cp-5 Add, cp-6 Add", 3, -2, 8, "AsWanted"},
		{"a hibernation", func(o *plan.Observed) {
			o.Workers, o.Power = []string{"w"}, plan.Power{Hibernate: true, Running: []string{"md"}}
		}, "cp-1 Remove, cp-2 Remove, cp-3 Remove", 3, -2, 6, "Hibernated"},
		{"the end of a hibernation", func(o *plan.Observed) {
			o.Machines, o.Etcd.Members, o.Cluster.Reachable, o.Etcd.Known = nil, nil, false, false
			o.Power = plan.Power{Requested: o.Now.Add(-2 * time.Hour), Backup: "b", Taken: o.Now.Add(-time.Hour), Since: o.Now.Add(-time.Hour)}
		}, "cp-4 Add, cp-5 Add, cp-6 Add", 3, 0, 7, "AsWanted"},
		{"machines to adopt", func(o *plan.Observed) {
			o.Machines, o.Etcd.Members, o.Cluster.Reachable, o.Etcd.Known = nil, nil, false, false
			o.Uncontrolled = []plan.UncontrolledMachine{{Name: "a"}, {Name: "b"}, {Name: "c"}}
		}, "", 0, 0, 3, "Adopting"},
		{"an even number", func(o *plan.Observed) { o.Want.Replicas = 4 }, "cp-1 Keep, cp-2 Keep, cp-3 Keep", 3, 1, 0, "EvenReplicas"},
		{"paused", func(o *plan.Observed) { version(o); o.Group.Paused = true }, "cp-1 Keep, cp-2 Keep, cp-3 Keep", 3, 1, 0, "Paused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := three(test.change)
			before, _ := json.Marshal(o)
			f := forecast.Of(o, forecast.DefaultTimes())
			if after, _ := json.Marshal(o); string(after) != string(before) {
				t.Errorf("the facts were changed: %s", after)
			}
			var fates []string
			for _, m := range f.Machines {
				fates = append(fates, m.Name+" "+string(m.Fate))
			}
			if got := strings.Join(fates, ", "); got != test.fates {
				t.Errorf("machines: %s, want %s", got, test.fates)
			}
			if f.MostMachines != test.most || f.LeastSpare != test.spare || len(f.Steps) != test.steps || f.End.Reason != test.end {
				t.Errorf("most %d, least spare %d, %d steps, end %s; want %d, %d, %d, %s", f.MostMachines, f.LeastSpare, len(f.Steps), f.End, test.most,
					test.spare, test.steps, test.end)
			}
			if f.Done() != (test.end == "AsWanted") || f.Replaces() != strings.Contains(test.fates, "Replace") {
				t.Errorf("done %v, replaces %v", f.Done(), f.Replaces())
			}
		})
	}
}

// TestDuration adds up what follows one another, and not what goes on at the same time.
func TestDuration(t *testing.T) {
	times := forecast.Times{Join: 100 * time.Second, Drain: 10 * time.Second, Leave: 10 * time.Second, Update: 50 * time.Second}
	for _, test := range []struct {
		name   string
		change func(*plan.Observed)
		want   time.Duration
	}{
		{"nothing", func(*plan.Observed) {}, 0},
		{"one more", func(o *plan.Observed) {
			o.Want.Replicas = 3
			o.Machines = o.Machines[:2]
			o.Etcd.Members = o.Etcd.Members[:2]
		}, 100 * time.Second},
		{"one less of each", func(o *plan.Observed) { o.Want.Replicas = 1 }, 40 * time.Second},
		{"one in place", func(o *plan.Observed) { o.Machines[0].Outdated, o.Policy.InPlace = "version", plan.InPlaceOnly }, 50 * time.Second},
		{"all defragmented", func(o *plan.Observed) {
			o.Policy.Defragment = plan.Defragmentation{FreePercent: 45}
			for i := range o.Etcd.Members {
				o.Etcd.Members[i].Size, o.Etcd.Members[i].InUse = 100<<20, 50<<20
			}
		}, 2 * plan.BetweenMembers},
	} {
		if got := forecast.Of(three(test.change), times).Duration; time.Duration(got) != test.want {
			t.Errorf("%s takes %s, want %s", test.name, got, test.want)
		}
	}
}

// TestHeld: where only so many machines may be replaced in a day, the days are forecast, and which steps wait for them.
func TestHeld(t *testing.T) {
	outdated := func(o *plan.Observed, limit int) {
		for i := range o.Machines {
			o.Machines[i].Outdated = "version v1.35.4, v1.36.3 is wanted"
		}
		o.Policy.MaxReplacements = limit
	}
	times := forecast.Times{Join: 100 * time.Second, Drain: 10 * time.Second, Leave: 10 * time.Second, Update: 50 * time.Second}
	for _, test := range []struct {
		name   string
		change func(*plan.Observed)
		held   string
		end    string
		takes  time.Duration
	}{
		{"one in a day", func(o *plan.Observed) { outdated(o, 1) }, "Create cp-5 held 23h59m40s, Create cp-6 held 23h59m40s", "AsWanted",
			48*time.Hour + 5*time.Minute + 20*time.Second},
		{"two in a day", func(o *plan.Observed) { outdated(o, 2) }, "Create cp-6 held 23h57m40s", "AsWanted",
			24*time.Hour + 3*time.Minute + 40*time.Second},
		{"three in a day", func(o *plan.Observed) { outdated(o, 3) }, "", "AsWanted", 6 * time.Minute},
		{"one was", func(o *plan.Observed) {
			outdated(o, 2)
			o.Group.Replacements = []plan.Replacement{{Machine: "cp-0", At: o.Now.Add(-23 * time.Hour)}}
		}, "Create cp-5 held 58m0s, Create cp-6 held 22h59m40s", "AsWanted", 24*time.Hour + 3*time.Minute + 40*time.Second},
		{"in place", func(o *plan.Observed) { outdated(o, 1); o.Policy.InPlace = plan.InPlaceOnly },
			"UpdateInPlace cp-3 held 23h59m10s, MoveLeader cp-3 held 23h59m10s", "AsWanted", 48*time.Hour + 50*time.Second},
		{"a window opens", func(o *plan.Observed) {
			outdated(o, 0)
			o.Group.Window = plan.Window{Closed: "it is outside of spec.approval.windows", Opens: o.Now.Add(5 * time.Hour)}
		}, "Create cp-4 held 5h0m0s", "AsWanted", 5*time.Hour + 6*time.Minute},
		{"none opens", func(o *plan.Observed) {
			outdated(o, 0)
			o.Group.Window = plan.Window{Closed: "spec.approval.windows[0] is wrong"}
		}, "", "OutsideWindow", 0},
		{"nobody knows", func(o *plan.Observed) { outdated(o, 1); o.Group.ReplacementsUnreadable = "it is x" }, "", "ReplacementsUnreadable", 0},
	} {
		o := three(test.change)
		f := forecast.Of(o, times)
		var held []string
		for _, s := range f.Steps {
			if s.Held > 0 {
				held = append(held, string(s.Step.Verb)+" "+s.Step.Machine+" held "+s.Held.String())
			}
		}
		if got := strings.Join(held, ", "); got != test.held || f.End.Reason != test.end || time.Duration(f.Duration) != test.takes {
			t.Errorf("%s: %s, end %s, takes %s; want %s, %s, %s", test.name, got, f.End, f.Duration, test.held, test.end, test.takes)
		}
		if n := len(o.Group.Replacements); n > 1 {
			t.Errorf("%s: the facts were changed", test.name)
		}
	}
}

// TestBackup: a change that needs a backup asks for one, waits for it, and asks for another when it becomes too old.
func TestBackup(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*plan.Observed)
		want   string
		takes  time.Duration
	}{
		{"none is needed", func(*plan.Observed) {}, "", 6 * time.Minute},
		{"one is needed", func(o *plan.Observed) { o.Policy.MaxBackupAge = time.Hour }, "+0s", 6*time.Minute + 7*time.Second},
		{"one is there", func(o *plan.Observed) {
			o.Policy.MaxBackupAge, o.Group.Backup.Name, o.Group.Backup.Taken = time.Hour, "b1", o.Now.Add(-time.Minute)
		}, "", 6 * time.Minute},
		{"one becomes too old", func(o *plan.Observed) {
			o.Policy.MaxBackupAge, o.Group.Backup.Name, o.Group.Backup.Taken = time.Hour, "b1", o.Now.Add(-57*time.Minute)
		}, "+4m0s", 6*time.Minute + 7*time.Second},
		{"one was asked for", func(o *plan.Observed) {
			o.Policy.MaxBackupAge, o.Group.Backup.Required, o.Group.Backup.Trouble = time.Hour, o.Now.Add(-time.Minute), "refused"
		}, "", 6*time.Minute + 7*time.Second},
		{"each needs another", func(o *plan.Observed) {
			o.Policy.MaxBackupAge = time.Minute
		}, "+0s +2m7s +4m14s", 6*time.Minute + 21*time.Second},
	} {
		o := three(func(o *plan.Observed) {
			for i := range o.Machines {
				o.Machines[i].Outdated, o.Machines[i].NeedsBackup = "version", "Kubernetes v1.36.3 -> v1.37.2"
			}
			test.change(o)
		})
		f := forecast.Of(o, forecast.Times{Join: 100 * time.Second, Drain: 10 * time.Second, Leave: 10 * time.Second, Backup: 7 * time.Second})
		var asked []string
		for _, s := range f.Steps {
			if s.Step.Verb == plan.RequestBackup {
				asked = append(asked, "+"+s.At.String())
			}
		}
		if got := strings.Join(asked, " "); got != test.want || !f.Done() || time.Duration(f.Duration) != test.takes {
			t.Errorf("%s: asked for %q, takes %s, end %s; want %q, %s", test.name, got, f.Duration, f.End, test.want, test.takes)
		}
	}
}

// TestTimesOf: what is known of a cluster counts, the rest is as elsewhere.
func TestTimesOf(t *testing.T) {
	usual := forecast.DefaultTimes()
	if got := forecast.TimesOf(nil); got != usual {
		t.Errorf("nothing is known, and times are %+v", got)
	}
	got := forecast.TimesOf(map[plan.Verb]time.Duration{plan.Create: 90 * time.Second, plan.Delete: 30 * time.Second,
		plan.ReleaseHook: 10 * time.Second, plan.UpdateInPlace: 20 * time.Second})
	if want := (forecast.Times{Join: 90 * time.Second, Drain: 20 * time.Second, Leave: 10 * time.Second, Update: 20 * time.Second,
		Backup: usual.Backup, Step: usual.Step}); got != want {
		t.Errorf("times are %+v, want %+v", got, want)
	}
	if got := forecast.TimesOf(map[plan.Verb]time.Duration{plan.Delete: time.Second}); got != usual {
		t.Errorf("a deletion that took less than its end gives %+v", got)
	}
}

// BenchmarkOf forecasts the rollout of a group of seven.
func BenchmarkOf(b *testing.B) {
	o := three(func(o *plan.Observed) {
		for _, name := range []string{"cp-4", "cp-5", "cp-6", "cp-7"} {
			m, e := o.Machines[0], o.Etcd.Members[1]
			m.Name, m.Host, e.ID, e.Name, e.Machine = name, name, name, name, name
			o.Machines, o.Etcd.Members = append(o.Machines, m), append(o.Etcd.Members, e)
		}
		o.Want.Replicas, o.Group.LastMachine = 7, 7
		for i := range o.Machines {
			o.Machines[i].Outdated = "version v1.35.4, v1.36.3 is wanted"
		}
	})
	for b.Loop() {
		if f := forecast.Of(o, forecast.DefaultTimes()); !f.Done() || len(f.Steps) != 29 {
			b.Fatalf("%d steps, and then %s", len(f.Steps), f.End)
		}
	}
}
