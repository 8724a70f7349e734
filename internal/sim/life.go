package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/plan"
)

// mostSteps is more than any life takes that comes to an end.
const mostSteps = 10000

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
		w.judgeStep(d.Step, fresh || w.blinded)
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
	if w.isBad(w.spec) && w.tired() {
		w.correct() // what is broken is replaced again and again
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
	if w.initialised && !w.reachable() && d.Step.Verb != plan.Nothing {
		return w.beyondHelp(d)
	}
	if d.Step.Verb == plan.Nothing {
		w.judgeBalance()
	}
	if w.wrong != nil || d.Step.Verb == plan.Nothing && w.AsWanted() == nil {
		return true, w.wrong
	}
	if w.isBad(w.spec) {
		w.judgeStop()
		w.correct()
		w.Advance(w.now.Add(time.Second))
		return false, w.wrong
	}
	for _, h := range w.hosts {
		if w.wantsHelp(h) {
			w.tell("a person deletes %s", h.name)
			w.upset()
			w.remove(h)
			w.Advance(w.now.Add(time.Second))
			return false, nil
		}
	}
	return true, errors.Join(fmt.Errorf("nothing happens any more, and nobody can help: %s", d), w.AsWanted())
}

// wantsHelp: a person deletes such a host. Who corrects a spec does not have to take
// away what was made of it besides, as long as its members live, it is known where, and
// another host works.
func (w *World) wantsHelp(h *host) bool {
	placed := w.setup.Places || w.setup.External
	if h.deleting || w.isBad(h.spec) && placed && w.without(h).complete > 0 && (h.alive() || h.member == nil || h.member.learner) {
		return false
	}
	return h.ails()
}

// tired: the script is over for long.
func (w *World) tired() bool {
	last := w.start
	if n := len(w.setup.Script); n > 0 {
		last = last.Add(w.setup.Script[n-1].At)
	}
	return !w.now.Before(last.Add(6 * time.Hour))
}

// beyondHelp: the rules must say so, and leave all alone.
func (w *World) beyondHelp(d plan.Decision) (bool, error) {
	switch d.Reason {
	case "QuorumLost", "Unreachable", "EtcdUnknown", "NoLeader", "NoMachineLeft":
		return true, nil
	}
	return true, fmt.Errorf("no API server can answer, and the decision is %s", d)
}
