package facts

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/sim"
)

// TestPatternsForgetNames: what differs only in names, times and versions is the same, and what differs in a fact is not.
func TestPatternsForgetNames(t *testing.T) {
	make := func(name string, at time.Time, change func(*plan.Observed)) []string {
		o := plan.Observed{
			Now: at, Group: plan.Group{Name: name, Initialized: true}, Want: plan.Want{Replicas: 1},
			Cluster: plan.Cluster{Infrastructure: true, Reachable: true},
			Machines: []plan.Machine{{Name: name + "-1", Host: name + "-1", Created: at, UpSince: at, Ready: true, Hook: true,
				Components: []plan.Component{{Name: "etcd", Health: plan.Healthy}}}},
			Etcd: plan.Etcd{Owner: plan.EtcdOurs, Known: true, Agreed: true,
				Members: []plan.Member{{ID: "1", Name: name + "-1", Machine: name + "-1", Leader: true, Health: plan.Healthy}}},
		}
		change(&o)
		return Patterns(o)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first := make("a", now, func(*plan.Observed) {})
	if len(first) != 2 || !slices.Equal(first, make("b", now.Add(time.Hour), func(*plan.Observed) {})) {
		t.Errorf("patterns are %v", first)
	}
	for what, change := range map[string]func(*plan.Observed){
		"a learner":       func(o *plan.Observed) { o.Etcd.Members[0].Learner = true },
		"a silent voter":  func(o *plan.Observed) { o.Etcd.Members[0].Health = plan.Unhealthy },
		"a stray":         func(o *plan.Observed) { o.Etcd.Members = append(o.Etcd.Members, plan.Member{ID: "2", Learner: true}) },
		"not ready":       func(o *plan.Observed) { o.Machines[0].Ready = false },
		"a sick etcd":     func(o *plan.Observed) { o.Machines[0].Components[0].Health = plan.Unhealthy },
		"more are wanted": func(o *plan.Observed) { o.Want.Replicas = 3 },
		"an update":       func(o *plan.Observed) { o.Machines[0].Update.State = plan.UpdateUnderway },
	} {
		if slices.Equal(first, make("a", now, change)) {
			t.Errorf("%s makes no difference", what)
		}
	}
}

// TestWithout: only what no world showed is left.
func TestWithout(t *testing.T) {
	if got := (Seen{"a": 1, "b": 2, "c": 3}).Without(Seen{"b": 1}); !slices.Equal(got, []string{"a", "c"}) {
		t.Errorf("%v", got)
	}
}

// TestWorldsReplayed: what worlds show is permitted when it is decided again, and is read as it was written.
func TestWorldsReplayed(t *testing.T) {
	var file bytes.Buffer
	seen, n := Seen{}, 0
	for seed := range int64(20) {
		err := sim.LiveSeen(sim.Random(seed), func(o plan.Observed) {
			n++
			seen.Add(o)
			if err := Replay(o); err != nil {
				t.Error(err)
			}
			if err := json.NewEncoder(&file).Encode(o); err != nil {
				t.Fatal(err)
			}
		})
		if err != nil {
			t.Error(err)
		}
	}
	all, err := Read(strings.NewReader(file.String() + `{"now":`))
	if err != nil || len(all) != n || n < 200 {
		t.Fatalf("%d of %d were read, %v", len(all), n, err)
	}
	again := Seen{}
	for _, o := range all {
		again.Add(o)
	}
	if len(again.Without(seen)) > 0 || len(seen.Without(again)) > 0 {
		t.Errorf("read back, the patterns differ: %v %v", again.Without(seen), seen.Without(again))
	}
	worlds, err := Worlds(0, 20)
	if left := seen.Without(worlds); err != nil || len(left) > 0 {
		t.Errorf("worlds did not show %v, %v", left, err)
	}
}
