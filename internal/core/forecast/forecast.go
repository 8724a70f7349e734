package forecast

import (
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/quorum"
)

// Forecast is what happens to a group if nothing goes wrong.
type Forecast struct {
	// Machines says what becomes of each machine: those that are there, the oldest first, and then those that will be.
	Machines []Machine `json:"machines,omitempty"`
	// Steps are those that will be taken, in their order.
	Steps []Step `json:"steps,omitempty"`
	// Now is how the group stands before the first step.
	Now Strength `json:"now"`
	// MostMachines is how many machines are there at most, those that are being deleted among them.
	MostMachines int `json:"mostMachines"`
	// LeastSpare is how many failures the quorum stands at the worst moment; negative: it is lost.
	LeastSpare int `json:"leastSpare"`
	// End is what the rules say when no further step comes by itself: Nothing when all is as wanted, Wait when somebody must do something.
	End plan.Decision `json:"end"`
	// Duration is how long it takes, as estimated from Times.
	Duration Duration `json:"duration"`
}

// Step is a decision that will be taken.
type Step struct {
	plan.Decision
	// After is how the group stands when the next step comes.
	After Strength `json:"after"`
	// At is when it is taken, counted from the beginning, as estimated.
	At Duration `json:"at"`
	// Held is for how much of that, since the step before, as many machines as the user allows in 24 hours had been replaced, or no window was
	// open; 0: nothing held it.
	Held Duration `json:"held,omitempty"`
	// HeldBy is the reason of the wait that held the step: plan.ReplacementLimit or plan.OutsideWindow; empty: nothing held it.
	HeldBy string `json:"heldBy,omitempty"`
}

// Strength is how a group stands.
type Strength struct {
	// Machines counts them, those that are being deleted among them.
	Machines int `json:"machines"`
	// Voters is how many members of etcd vote, and Spare how many of them may fail; both are 0 where no members run on the machines.
	Voters int `json:"voters,omitempty"`
	Spare  int `json:"spare,omitempty"`
}

// Duration is a time.Duration that is written as people write it: 1m30s.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	read, err := time.ParseDuration(string(text))
	*d = Duration(read)
	return err
}

// String writes it rounded to seconds.
func (d Duration) String() string { return time.Duration(d).Round(time.Second).String() }

// Done reports whether at the end all is as wanted.
func (f Forecast) Done() bool {
	return f.End.Step.Verb == plan.Nothing || f.End.Step.Verb == plan.Finish
}

// Replaces reports whether a machine that is there will be replaced.
func (f Forecast) Replaces() bool {
	return slices.ContainsFunc(f.Machines, func(m Machine) bool { return m.Fate == Replace })
}

// mostSteps is more than any forecast has that comes to an end.
const mostSteps = 10000

// Of forecasts what happens to a group from now on.
func Of(o plan.Observed, t Times) Forecast {
	w := newWorld(o, t)
	f := Forecast{Now: strength(w.o), MostMachines: len(w.o.Machines), LeastSpare: strength(w.o).Spare}
	for f.goOn(w) {
		f.note(w)
	}
	f.note(w)
	f.Duration = Duration(w.elapsed)
	f.Machines = fates(o, f.Steps)
	return f
}

// goOn lets the next step be taken, or the next thing happen that happens by itself. It reports whether there may be another.
func (f *Forecast) goOn(w *world) bool {
	d, err := w.next()
	if f.End = d; err != nil {
		f.End = stop(d, "CheckFailed", err.Error())
		return false
	}
	if !d.Step.Acts() {
		return w.pass() || w.waitForLimit(d) || w.waitForWindow(d) || waitForMembers(w, d)
	}
	f.Steps = append(f.Steps, Step{Decision: told(d), At: Duration(w.elapsed), Held: Duration(w.held), HeldBy: w.heldBy})
	w.held, w.heldBy = 0, ""
	w.act(d.Step)
	if d.Step.Verb == plan.Adopt && len(w.o.Uncontrolled) == 0 {
		f.End = stop(d, d.Reason, "what the adopted machines are like is read with the next look")
		return false
	}
	return d.Step.Verb != plan.Finish && len(f.Steps) < mostSteps
}

// stop ends a forecast with a wait.
func stop(d plan.Decision, reason, message string) plan.Decision {
	return plan.Decision{Step: plan.Step{Verb: plan.Wait}, Rule: d.Rule, Reason: reason, Message: message}
}

// note keeps how the group stands after something has happened.
func (f *Forecast) note(w *world) {
	now := strength(w.o)
	f.MostMachines = max(f.MostMachines, now.Machines)
	if now.Voters > 0 {
		f.LeastSpare = min(f.LeastSpare, now.Spare)
	}
	if n := len(f.Steps); n > 0 {
		f.Steps[n-1].After = now
	}
}

// strength is how a group stands.
func strength(o plan.Observed) Strength {
	s := Strength{Machines: len(o.Machines)}
	if !o.Etcd.Ours() {
		return s
	}
	voters := plan.Assess(o).Voters
	if s.Voters = len(voters); s.Voters > 0 {
		s.Spare = quorum.Spare(voters)
	}
	return s
}
