package forecast_test

import (
	"flag"
	"fmt"
	"math/rand"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/internal/core/forecast"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/sim"
)

var (
	seed   = flag.Int64("seed", -1, "run the world of this seed alone, and tell what was forecast and what was done")
	worlds = flag.Int64("worlds", 300, "how many worlds are held against their forecasts")
)

// TestForecastsHold lets random worlds live in which nothing goes wrong, but in which people scale, change the spec and the policy, and
// delete: of each moment between two such changes the steps that were forecast are those that are taken until the next.
func TestForecastsHold(t *testing.T) {
	if *seed >= 0 {
		l := live(faultless(*seed))
		t.Logf("%+v\n%s", faultless(*seed), l.story)
		for _, text := range l.wrong {
			t.Error(text)
		}
		return
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	next, forecasts, steps, failed := int64(0), 0, 0, 0
	verbs := map[plan.Verb]int{}
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				mu.Lock()
				n := next
				next++
				stop := n >= *worlds || failed > 5
				mu.Unlock()
				if stop {
					return
				}
				l := live(faultless(n))
				mu.Lock()
				forecasts, steps = forecasts+l.forecasts, steps+l.steps
				for verb, n := range l.verbs {
					verbs[verb] += n
				}
				if len(l.wrong) > 0 {
					failed++
					t.Errorf("seed %d: %s", n, l.wrong[0])
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	fmt.Printf("%d worlds, %d steps taken, %d forecasts held against them, %d worlds in which they differ; %v\n", *worlds, steps, forecasts,
		failed, verbs)
	for _, verb := range []plan.Verb{plan.Write, plan.Create, plan.StartBootstrap, plan.Delete, plan.MoveLeader, plan.PromoteMember,
		plan.RemoveMember,
		plan.EnableDowngrade, plan.CancelDowngrade, plan.UpdateInPlace, plan.RecordUpdate, plan.RequestBackup, plan.ReleaseHook, plan.Finish,
		counted} {
		if verbs[verb] == 0 {
			t.Errorf("no world has the step %s: this test looks at nothing", verb)
		}
	}
}

// between is how long after one change by a person the next comes: longer than anything takes, also where one machine is replaced in a day.
const between = 14 * 24 * time.Hour

// counted stands for steps of any verb that count as replacements.
const counted plan.Verb = "counted"

// faultless makes a world in which nothing goes wrong.
func faultless(seed int64) sim.Setup {
	s := sim.Random(seed)
	s.Fates, s.Bad, s.Remains, s.Luck, s.Checks, s.UpdateFails, s.Sturdy, s.ByExtension, s.Faultless = nil, nil, nil, sim.Luck{}, false, 0,
		false, false, true
	s.Boot, s.Serial = min(s.Boot, 3*time.Minute), false // where members join as voters, chance decides who leads
	r := rand.New(rand.NewSource(^seed))
	s.Script = nil
	if s.Gate > 0 { // so long that no rollout takes longer, and less than from one change to the next
		s.Gate = between - 2*24*time.Hour
	}
	for n := range 1 + r.Intn(5) {
		e := sim.Event{At: time.Duration(n+1) * between}
		switch k := r.Intn(10); {
		case k < 5:
			e.Kind, e.N = sim.Change, 1+r.Intn(3)
		case k < 8:
			e.Kind, e.N = sim.Scale, 1+2*r.Intn(4)
		case k < 9:
			e.Kind, e.N = sim.DeleteMachine, 1+r.Intn(8)
		case s.EtcdOnly:
			e.Kind, e.N = sim.Change, 1+r.Intn(3)
		default:
			e.Kind, e.N = sim.SetInPlace, r.Intn(3)
		}
		s.Script = append(s.Script, e)
	}
	if r.Intn(10) == 0 {
		s.Script = append(s.Script, sim.Event{At: time.Duration(len(s.Script)+1) * between, Kind: sim.DeleteGroup})
	}
	return s
}

// life is what was forecast in a world, and what was done.
type life struct {
	forecasts, steps int
	verbs            map[plan.Verb]int
	wrong            []string
	story            *strings.Builder
	// since the last change by a person: what was done, and what was forecast after so many steps
	done  []plan.Step
	heard []heard
}

// heard is a forecast, and after how many steps it was made.
type heard struct {
	after    int
	observed plan.Observed
	forecast.Forecast
}

// live lets a world live, and holds its forecasts against what is done.
func live(s sim.Setup) *life {
	w, l := sim.New(s), &life{story: &strings.Builder{}, verbs: map[plan.Verb]int{}}
	script, last := s.Script, plan.Decision{}
	for range 20000 {
		o, _ := w.Look()
		if len(script) > 0 && !o.Now.Before(start.Add(script[0].At)) {
			fmt.Fprintf(l.story, "%s %d\n", script[0].Kind, script[0].N)
			script = script[1:]
			l.compare(last)
		}
		d := plan.Next(o)
		l.hear(o, d)
		if last = d; d.Step.Acts() {
			l.do(w, o, d)
		}
		switch {
		case d.Step.Verb == plan.Finish:
			l.compare(d)
			return l
		case d.Step.Acts():
			w.Advance(o.Now.Add(time.Second))
		case d.Again > 0:
			w.Advance(o.Now.Add(d.Again))
		case !w.Quiet():
			w.Advance(time.Time{})
		default:
			l.compare(d)
			return l
		}
	}
	l.wrong = append(l.wrong, "no end")
	return l
}

// do takes a step. What etcd refuses at the moment is tried again.
func (l *life) do(w *sim.World, o plan.Observed, d plan.Decision) {
	err := w.Do(d)
	fmt.Fprintf(l.story, "%s %s %v\n", o.Now.Format("02 15:04:05"), d, err)
	if err == nil {
		l.done = append(l.done, d.Step)
		l.steps++
		l.verbs[d.Step.Verb]++
		if d.Step.Counts {
			l.verbs[counted]++
		}
	}
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// hear makes a forecast, unless nothing has changed since the last.
func (l *life) hear(o plan.Observed, d plan.Decision) {
	n := len(l.heard)
	if n > 0 && l.heard[n-1].after == len(l.done) && n%7 != 0 { // some in the middle of a wait
		return
	}
	l.heard = append(l.heard, heard{len(l.done), o, forecast.Of(o, forecast.DefaultTimes())})
	l.forecasts++
}

// compare holds what was forecast against what was done, when all that was under way has ended.
func (l *life) compare(end plan.Decision) {
	for _, h := range l.heard {
		want, got := names(l.done[h.after:], h.observed), predicted(h)
		if !slices.Equal(want, got) {
			l.wrong = append(l.wrong, fmt.Sprintf("after %d steps since the last change, at %s:\nforecast %s\ndone     %s\nend      %s\nforecast %s",
				h.after, h.observed.Now.Format("15:04:05"), strings.Join(got, "; "), strings.Join(want, "; "), end, h.End))
			break
		}
	}
	l.done, l.heard = nil, nil
}

// predicted are the steps of a forecast.
func predicted(h heard) []string {
	var steps []plan.Step
	for _, s := range h.Steps {
		steps = append(steps, s.Step)
	}
	return names(steps, h.observed)
}

// names writes steps such that those of a forecast and those that were taken can be compared: by the machines of the members, whose IDs
// etcd gives. Members that join at the same time are promoted in any order.
func names(steps []plan.Step, o plan.Observed) []string {
	var all []string
	for _, s := range steps {
		if s.Member = ""; s.Verb == plan.PromoteMember {
			s.Machine = ""
		}
		all = append(all, s.String())
	}
	return all
}
