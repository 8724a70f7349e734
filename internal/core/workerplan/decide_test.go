package workerplan

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/plan"
)

// wanted is what every row asks for, unless it says otherwise: three machines of one set, all behind.
func behind(change func(*Observed)) Observed {
	o := Observed{Policy: plan.InPlacePreferred, OnDelete: true, Version: "v1.36.3", MaxUnavailable: 1,
		Sets: []Set{{Name: "old", Version: "v1.35.4"}}}
	for _, name := range []string{"w1", "w2", "w3"} {
		o.Machines = append(o.Machines, Machine{Name: name, Set: "old", Version: "v1.35.4"})
	}
	change(&o)
	return o
}

func TestNext(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Observed)
		want   string
		says   string
	}{
		{"the first", func(*Observed) {}, "UpdateInPlace w1", "w1 runs v1.35.4, wanted v1.36.3"},
		{"never", func(o *Observed) { o.Policy = plan.InPlaceNever }, "Nothing", ""},
		{"never, one was done before", func(o *Observed) { o.Policy, o.Machines[0].Update = plan.InPlaceNever, Done }, "RecordUpdate w1", ""},
		{"external", func(o *Observed) { o.Policy = plan.InPlaceExternal }, "Wait UpdatedElsewhere", "w1, w2, w3 to v1.36.3"},
		{"external, all as wanted", func(o *Observed) { o.Policy = plan.InPlaceExternal; done(o, 0, 1, 2); o.Sets[0].Version = o.Version },
			"Nothing", "3 machines"},
		{"held", func(o *Observed) { o.Held = "the cluster is paused" }, "Wait Paused", "the cluster is paused"},
		{"Cluster API replaces", func(o *Observed) { o.OnDelete = false }, "Wait StrategyReplaces", "OnDelete"},
		{"the control plane first", func(o *Observed) { o.ControlPlane = "demo-cp has v1.35.4" }, "Wait ControlPlaneFirst",
			"demo-cp has v1.35.4"},
		{"one under way", func(o *Observed) { o.Machines[0].Update = Underway }, "Wait MachinesUnavailable",
			"w2 behind, and waits: 1 may be away, and are: w1"},
		{"two may be away", func(o *Observed) { o.Machines[0].Update, o.MaxUnavailable = Underway, 2 }, "UpdateInPlace w2", ""},
		{"one is done", func(o *Observed) { o.Machines[0].Update = Done }, "RecordUpdate w1", ""},
		{"one is recorded", func(o *Observed) { done(o, 0) }, "UpdateInPlace w2", ""},
		{"another does not serve", func(o *Observed) { o.Machines[2].Unavailable = "its node is not ready" }, "Wait MachinesUnavailable",
			"w3: its node is not ready"},
		{"itself does not serve", func(o *Observed) { done(o, 1, 2); o.Machines[0].Unavailable = "its node is not ready" },
			"Wait UpdatingInPlace", "w1: its node is not ready"},
		{"one goes", func(o *Observed) { o.Machines[2].Deleting = true }, "Wait MachinesUnavailable", "w3: it is being deleted"},
		{"one failed", func(o *Observed) { o.Machines[0].Update, o.Machines[0].Message = Failed, "swap: no" }, "Wait UpdateFailed",
			"w1: swap: no"},
		{"one failed for another version", func(o *Observed) { o.Machines[0].Update, o.Machines[0].Obsolete = Failed, true }, "DropUpdate w1",
			""},
		{"one failed, reverted", func(o *Observed) { o.Machines[0].Update, o.Version = Failed, "v1.35.4" }, "DropUpdate w1", ""},
		{"another template", func(o *Observed) { o.Sets[0].Differs = "bootstrap template a, wanted b" }, "Replace w1",
			"bootstrap template a, wanted b"},
		{"no image", func(o *Observed) { o.NoUpgrader = "no upgrader image for v1.36.3: set it" }, "Wait NoUpgraderImage",
			"in place: no upgrader image for v1.36.3: set it"},
		{"no image, another template", func(o *Observed) { o.NoUpgrader, o.Sets[0].Differs = "no upgrader image", "template a" }, "Replace w1",
			"template a"},
		{"another template, only", func(o *Observed) { o.Policy, o.Sets[0].Differs = plan.InPlaceOnly, "bootstrap template a, wanted b" },
			"Wait CannotUpdateInPlace", "w1: bootstrap template a"},
		{"one cannot, only", func(o *Observed) { o.Policy, o.Machines[0].Unfit = plan.InPlaceOnly, "four minor versions" }, "UpdateInPlace w2",
			""},
		{"all done", func(o *Observed) { done(o, 0, 1, 2) }, "FollowSet old", "v1.35.4"},
		{"all done and followed", func(o *Observed) { done(o, 0, 1, 2); o.Sets[0].Version = o.Version }, "Nothing", "3 machines"},
	} {
		t.Run(row.name, func(t *testing.T) {
			o := behind(row.change)
			d := Next(o)
			got := string(d.Step.Verb)
			switch {
			case d.Step.Verb == Wait:
				got += " " + d.Reason
			case d.Step.Machine+d.Step.Set != "":
				got += " " + d.Step.Machine + d.Step.Set
			}
			if got != row.want || !strings.Contains(d.Message, row.says) {
				t.Errorf("got %s: %s; want %s: %s", got, d.Message, row.want, row.says)
			}
			if err := Check(o, d.Step); err != nil {
				t.Error(err)
			}
		})
	}
}

// done: these machines have what is wanted, and say so.
func done(o *Observed, at ...int) {
	for _, i := range at {
		o.Machines[i].Version = o.Version
	}
}

// TestCheck: what Next never says is refused.
func TestCheck(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Observed)
		step   Step
	}{
		{"held", func(o *Observed) { o.Held = "paused" }, Step{Verb: UpdateInPlace, Machine: "w1"}},
		{"never", func(o *Observed) { o.Policy = plan.InPlaceNever }, Step{Verb: UpdateInPlace, Machine: "w1"}},
		{"external", func(o *Observed) { o.Policy = plan.InPlaceExternal }, Step{Verb: Replace, Machine: "w1"}},
		{"before the control plane", func(o *Observed) { o.ControlPlane = "old" }, Step{Verb: UpdateInPlace, Machine: "w1"}},
		{"under a strategy that replaces", func(o *Observed) { o.OnDelete = false }, Step{Verb: UpdateInPlace, Machine: "w1"}},
		{"a second", func(o *Observed) { o.Machines[1].Update = Underway }, Step{Verb: UpdateInPlace, Machine: "w1"}},
		{"beside one that is away", func(o *Observed) { o.Machines[1].Unavailable = "dead" }, Step{Verb: Replace, Machine: "w1"}},
		{"one that is away", func(o *Observed) { o.Machines[0].Unavailable = "dead" }, Step{Verb: UpdateInPlace, Machine: "w1"}},
		{"one that failed", func(o *Observed) { o.Machines[0].Update = Failed }, Step{Verb: UpdateInPlace, Machine: "w1"}},
		{"one that is as wanted", func(o *Observed) { done(o, 0) }, Step{Verb: UpdateInPlace, Machine: "w1"}},
		{"replaced with Only", func(o *Observed) { o.Policy = plan.InPlaceOnly }, Step{Verb: Replace, Machine: "w1"}},
		{"nobody", func(*Observed) {}, Step{Verb: Replace, Machine: "w9"}},
	} {
		if err := Check(behind(row.change), row.step); err == nil {
			t.Errorf("%s: %v is allowed", row.name, row.step)
		}
	}
	o := behind(func(o *Observed) { o.Machines[0].Unavailable, o.Sets[0].Differs = "dead", "template" })
	if err := Check(o, Step{Verb: Replace, Machine: "w1"}); err != nil {
		t.Errorf("a dead machine takes nothing away when it is replaced: %v", err)
	}
}

// TestWorlds: in small random worlds, in which upgrades fail, nodes break and come back, people pause, change their mind and delete
// machines, never more machines are away by our doing than may be, Only never replaces, and when all that ends, all is as wanted or waits
// for a person.
func TestWorlds(t *testing.T) {
	for seed := range uint64(3000) {
		w := &world{rand: rand.New(rand.NewPCG(seed, 1)), t: t, seed: seed}
		w.begin()
		for range 60 {
			w.disturb()
			w.turn()
		}
		w.calm()
		for range 200 {
			w.turn()
		}
		w.ended()
	}
}

type world struct {
	Observed
	rand    *rand.Rand
	t       *testing.T
	seed    uint64
	begun   map[string]string // the version that each upgrade is for
	breaks  bool              // what is begun now fails
	decided Decision
}

func (w *world) begin() {
	w.Observed = behind(func(o *Observed) {
		o.Policy = []plan.InPlace{plan.InPlacePreferred, plan.InPlaceOnly}[w.rand.IntN(2)]
		o.MaxUnavailable = 1 + w.rand.IntN(2)
		o.Machines = o.Machines[:1+w.rand.IntN(3)]
	})
	w.begun = map[string]string{}
}

func (w *world) disturb() {
	m := &w.Machines[w.rand.IntN(len(w.Machines))]
	switch w.rand.IntN(12) {
	case 0:
		m.Unavailable = "its node is not ready"
	case 1, 2:
		m.Unavailable = ""
	case 3:
		w.Held = []string{"", "paused"}[w.rand.IntN(2)]
	case 4:
		w.Version = []string{"v1.36.3", "v1.35.4", "v1.36.2"}[w.rand.IntN(3)]
	case 5:
		w.ControlPlane = []string{"", "", "it goes first"}[w.rand.IntN(3)]
	case 6:
		m.Deleting = true
	case 7:
		w.breaks = w.rand.IntN(2) == 0
	case 8:
		w.Sets[0].Differs = []string{"", "", "template"}[w.rand.IntN(3)]
	}
}

// turn takes one step, and lets what is under way go on.
func (w *world) turn() {
	for i := range w.Machines {
		m := &w.Machines[i]
		m.Obsolete = m.Update != NoUpdate && w.begun[m.Name] != w.Version
		switch {
		case m.Deleting && w.rand.IntN(3) == 0: // another takes its place, of the set that is up to date
			*m = Machine{Name: m.Name + "x", Set: "new", Version: w.Version}
			w.Sets = append(w.Sets[:1], Set{Name: "new", Version: w.Version})
		case m.Update == Underway && w.rand.IntN(3) == 0:
			m.Update = Done
			if w.breaks {
				m.Update = Failed
			}
		}
	}
	w.decided = Next(w.Observed)
	if err := Check(w.Observed, w.decided.Step); err != nil {
		w.t.Fatalf("seed %d: %v: %+v", w.seed, err, w.Observed)
	}
	w.do(w.decided.Step)
}

func (w *world) do(s Step) {
	if s.Verb == FollowSet {
		for i := range w.Sets {
			if w.Sets[i].Name == s.Set {
				w.Sets[i].Version = w.Version
			}
		}
	}
	for i := range w.Machines {
		m := &w.Machines[i]
		if m.Name != s.Machine {
			continue
		}
		switch s.Verb {
		case UpdateInPlace:
			m.Update, w.begun[m.Name] = Underway, w.Version
		case RecordUpdate:
			m.Update, m.Version = NoUpdate, w.begun[m.Name]
		case DropUpdate:
			m.Update = NoUpdate
		case Replace:
			if w.Policy == plan.InPlaceOnly {
				w.t.Fatalf("seed %d: %s was replaced", w.seed, m.Name)
			}
			m.Deleting = true
		}
	}
}

// calm ends all faults.
func (w *world) calm() {
	w.Held, w.ControlPlane, w.breaks = "", "", false
	for i := range w.Machines {
		w.Machines[i].Unavailable = ""
	}
}

func (w *world) ended() {
	switch w.decided.Reason {
	case "AsWanted":
		for _, m := range w.Machines {
			if w.behind(m) {
				w.t.Errorf("seed %d: %s is behind at the end", w.seed, m.Name)
			}
		}
	case "UpdateFailed": // a person decides
	case "CannotUpdateInPlace":
		if w.Policy != plan.InPlaceOnly {
			w.t.Errorf("seed %d: %s", w.seed, w.decided.Message)
		}
	default:
		w.t.Errorf("seed %d: it ends with %s", w.seed, fmt.Sprint(w.decided))
	}
}
