package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/core/check"
	"github.com/quorate/quorate/internal/core/plan"
)

// mostSteps is more than any life takes that comes to an end.
const mostSteps = 20000

// NeedsHelp is the error of a world that does not become what is wanted although nothing
// stands in the way that only a person may decide, or does not say what that is.
type NeedsHelp struct{ error }

// Live lets the rules run a world until it is as wanted and stays so, or until the rules
// name a decision that only a person may take: there is no other help. It returns how many
// steps were decided, and what was wrong: an invariant that was broken, or NeedsHelp.
// What happens is added to the story, unless that is nil.
func Live(s Setup, story *Story) (int, error) {
	w := New(s)
	w.story = story
	return w.live()
}

// LiveSeen is Live that shows each look of the rules at the world.
func LiveSeen(s Setup, see func(plan.Observed)) error {
	w := New(s)
	w.see = see
	_, err := w.live()
	return err
}

func (w *World) live() (int, error) {
	for n := 1; n <= mostSteps; n++ {
		if w.now.Before(w.others) {
			w.Advance(w.others)
			w.judgeTruth()
			if w.wrong != nil {
				return n, w.wrong
			}
			continue
		}
		d, fresh := w.turn()
		if w.wrong != nil {
			return n, w.wrong
		}
		if over, err := w.proceed(d, fresh); over {
			return n, err
		}
	}
	return mostSteps, errors.Join(fmt.Errorf("no end after %d steps", mostSteps), w.AsWanted())
}

// turn looks, decides, and does what was decided; whatever is wrong with that is blamed. fresh: what was seen is the truth.
func (w *World) turn() (d plan.Decision, fresh bool) {
	o, fresh := w.Look()
	if w.see != nil {
		w.see(o)
	}
	d = plan.Next(o)
	w.told(d)
	if err := check.Decision(o, d); err != nil {
		w.blame("Check refuses %s: %v", d, err)
	}
	w.judgeSeen(o, d)
	recoveryJudge{recovering{w}}.judgeSeen(o, d.Step)
	if fresh {
		w.judgeOrder(d)
	}
	w.judgeStep(d.Step, fresh || w.blinded)
	recoveryJudge{recovering{w}}.judgeDecision(d, fresh)
	sleeper{w}.judge(d.Step, fresh)
	if err := w.Do(d); err != nil {
		w.tell("%v", err)
	}
	w.judgeTruth()
	w.spendApproval(d, fresh)
	w.noteNumber(o)
	return d, fresh
}

// proceed lets time pass. It reports whether the life is over.
func (w *World) proceed(d plan.Decision, fresh bool) (bool, error) {
	if w.finished {
		return true, w.AsWanted()
	}
	w.rested = w.rested || d.Step.Verb == plan.Nothing && fresh
	if until, more := w.nextTurn(d, fresh); more {
		w.Advance(until)
		return false, nil
	}
	return w.atRest(d)
}

// nextTurn is when something may be decided again, after a decision; zero: when something happens. more is false when nothing will.
func (w *World) nextTurn(d plan.Decision, fresh bool) (until time.Time, more bool) {
	switch {
	case d.Step.Acts():
		return w.now.Add(time.Second), true
	case !fresh:
		return w.now.Add(2 * time.Second), true
	case w.isBad(w.spec) && w.tired():
		w.correct() // what is broken is replaced again and again
		return w.now.Add(time.Second), true
	case d.Reason == "Waking" && w.Quiet() && w.awaitsPerson(): // the spec approves that recovery at each look anew
		return time.Time{}, false
	case d.Again > 0:
		return w.now.Add(d.Again), true
	}
	return time.Time{}, !w.Quiet()
}

// atRest judges a world in which nothing happens any more.
func (w *World) atRest(d plan.Decision) (bool, error) {
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
	if w.awaitsPerson() {
		return true, nil
	}
	for _, v := range plan.Explain(w.Observe()) {
		w.tell("%s: %s%s", v.Rule, v.Because, v.Decision.Message)
	}
	return true, NeedsHelp{fmt.Errorf("nothing happens any more, and nobody is told what to decide: %s: %w", d, w.notAsWanted())}
}

// notAsWanted is what of the world is not as the user wants it.
func (w *World) notAsWanted() error {
	if err := w.AsWanted(); err != nil {
		return err
	}
	return errors.New("all is as wanted, and the rules do not see it")
}

// tired: the script is over for long.
func (w *World) tired() bool {
	last := w.start
	if n := len(w.setup.Script); n > 0 {
		last = last.Add(w.setup.Script[n-1].At)
	}
	return !w.now.Before(last.Add(6 * time.Hour))
}
