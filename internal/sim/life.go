package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/plan"
)

// mostSteps is more than any life takes that comes to an end.
const mostSteps = 4000

// Live lets the rules run a world until it is as wanted and stays so, or until
// only a person could help and a person would not. It returns how many steps were
// decided, and what was wrong: an invariant that was broken, or a world that does
// not become what is wanted. What happens is added to the story, unless that is nil.
func Live(s Setup, story *Story) (int, error) {
	w := New(s)
	w.story = story
	for n := 1; n <= mostSteps; n++ {
		o, fresh := w.Look()
		d := plan.Next(o)
		w.told(d)
		if err := plan.Check(o, d); err != nil {
			w.blame("Check refuses %s: %v", d, err)
		}
		w.judgeStep(d.Step, fresh)
		if err := w.Do(d); err != nil {
			w.tell("%v", err)
		}
		w.judgeTruth()
		if w.wrong != nil {
			return n, w.wrong
		}
		if over, err := w.proceed(d, fresh); over {
			return n, err
		}
	}
	return mostSteps, errors.Join(fmt.Errorf("no end after %d steps", mostSteps), w.AsWanted())
}

// proceed lets time pass, and a person help. It reports whether the life is over.
func (w *World) proceed(d plan.Decision, fresh bool) (bool, error) {
	if w.finished {
		return true, w.AsWanted()
	}
	w.rested = w.rested || d.Step.Verb == plan.Nothing && fresh
	if d.Step.Verb != plan.Wait && d.Step.Verb != plan.Nothing {
		w.Advance(w.now.Add(time.Second))
		return false, nil
	}
	if !fresh {
		w.Advance(w.now.Add(2 * time.Second))
		return false, nil
	}
	if d.Again > 0 {
		w.Advance(w.now.Add(d.Again))
		return false, nil
	}
	if !w.Quiet() {
		w.Advance(time.Time{})
		return false, nil
	}
	return w.atRest(d)
}

// atRest judges a world in which nothing happens any more.
func (w *World) atRest(d plan.Decision) (bool, error) {
	if d.Step.Verb == plan.Nothing {
		return true, w.AsWanted()
	}
	if w.initialised && !w.reachable() {
		return w.beyondHelp(d)
	}
	for _, h := range w.hosts {
		if h.broken() && !h.deleting {
			w.tell("a person deletes %s", h.name)
			w.remove(h)
			w.Advance(w.now.Add(time.Second))
			return false, nil
		}
	}
	return true, errors.Join(fmt.Errorf("nothing happens any more, and nobody can help: %s", d), w.AsWanted())
}

// beyondHelp: the rules must say so, and leave all alone.
func (w *World) beyondHelp(d plan.Decision) (bool, error) {
	switch d.Reason {
	case "QuorumLost", "Unreachable", "EtcdUnknown", "NoLeader", "NoMachineLeft":
		return true, nil
	}
	return true, fmt.Errorf("no API server can answer, and the decision is %s", d)
}
