package sim

import (
	"fmt"
	"math/rand"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/plan"
)

// What differs where only so many machines are replaced, or changed in place, in a day.

// What people do about that.
const (
	SetLimit Kind = "set limit" // to N in a day; 0: to none
	Garble   Kind = "garble"    // what is noted of replacements: it cannot be read any more
	Forget   Kind = "forget"    // what is noted of replacements
)

// limitSalt keeps what is drawn of limits apart from what else is drawn of a seed.
const limitSalt = 0x11417

// limitPeriod is the time within which the user counts.
const limitPeriod = 24 * time.Hour

// drawLimit limits replacements in some groups. In some of these people change the limit, or what is noted, most of them in the middle of
// something.
func (s *Setup) drawLimit(seed int64) {
	r := rand.New(rand.NewSource(seed ^ limitSalt))
	if s.Minors != nil && r.Intn(3) == 0 && !s.Sturdy {
		// All machines are replaced, and the same day an older etcd is wanted.
		s.Limit, s.Minors = s.Replicas, map[int]int{1: 6, 2: 5, 3: 6}
		s.Script = inOrder(append(s.Script, Event{At: time.Hour, Kind: Change, N: 3}, Event{At: time.Duration(5+r.Intn(20)) * time.Hour,
			Kind: Change, N: 2})...)
		return
	}
	if r.Intn(5) > 0 {
		return
	}
	s.Limit = pick(r, 1, 1, 2, 3)
	s.Ahead = pick(rand.New(rand.NewSource(seed+limitSalt)), 0, 0, 0, 10*time.Second, 20*time.Minute)
	if s.Sturdy {
		return
	}
	for range r.Intn(pick(r, 1, 2, 4)) {
		at := time.Duration(r.Intn(1500)) * time.Second
		if r.Intn(3) == 0 {
			at += time.Duration(r.Intn(30)) * time.Hour
		}
		e := Event{At: at, Kind: pick(r, SetLimit, SetLimit, Garble, Forget)}
		if e.Kind == SetLimit {
			e.N = r.Intn(4)
		}
		s.Script = inOrder(append(s.Script, e)...)
		if e.Kind == Garble && r.Intn(3) > 0 {
			s.Script = inOrder(append(s.Script, Event{At: at + randomSpan(r), Kind: Forget})...)
		}
	}
	if r.Intn(3) == 0 { // another day
		at := time.Duration(20+r.Intn(10)) * time.Hour
		s.Script = inOrder(append(s.Script, Event{At: at, Kind: Change, N: 1 + r.Intn(3)})...)
	}
}

// limits are how many machines are replaced in a day, what is noted of that, and what is true.
type limits struct {
	most    int                // 0: no limit
	noted   []plan.Replacement // by the controller, on the group's object
	garbled bool               // it cannot be read
	version int                // of the object, as far as people change this
	saw     int                // the version that the controller saw last
	// truly are the replacements that took place since there is a limit, or since a person forgot what was noted.
	truly []plan.Replacement
	// surged: the controller has made one machine more than wanted, and nothing was done since.
	surged bool
}

// befallLimit is what people do about limits. It reports whether the event was such a one.
func (w *World) befallLimit(e Event) bool {
	l := &w.limits
	switch e.Kind {
	case SetLimit:
		w.tell("at most %d machines are replaced in a day", e.N)
		if l.most = e.N; e.N == 0 {
			l.truly = nil
		}
	case Garble:
		w.tell("somebody garbles what is noted of replacements")
		l.garbled = true
	case Forget:
		w.tell("somebody takes away what is noted of replacements")
		l.garbled, l.noted, l.truly = false, nil, nil
	default:
		return false
	}
	l.version++
	return true
}

// addLimit is what can be seen of it.
func (w *World) addLimit(o *plan.Observed) {
	l := w.limits
	o.Policy.MaxReplacements = l.most
	switch {
	case l.most == 0:
	case l.garbled:
		o.Group.ReplacementsUnreadable = `the annotation is "x"`
	default:
		o.Group.Replacements = slices.Clone(l.noted)
	}
}

// note writes down that a machine is about to be replaced, or changed in place. Who has not seen what people changed since cannot.
func (w *World) note(s plan.Step) error {
	l := &w.limits
	if !s.Counts {
		return nil
	}
	if l.saw != l.version {
		return fmt.Errorf("%s: the group's object has changed", s.Verb)
	}
	l.noted = slices.DeleteFunc(l.noted,
		func(r plan.Replacement) bool { return r.Machine == s.Machine || !w.now.Before(r.At.Add(limitPeriod)) })
	l.noted = append(l.noted, plan.Replacement{Machine: s.Machine, At: w.now.Add(w.setup.Ahead + time.Second - 1).Truncate(time.Second)})
	w.tell("it is noted that %s is replaced", s.Machine)
	return nil
}

// takePlace keeps in mind, for the oracle alone, that the controller replaces a host, or changes it in place.
func (w *World) takePlace(s plan.Step, h *host) {
	l := &w.limits
	if l.most == 0 || !w.isReplacement(s, h) {
		return
	}
	l.surged = false
	l.truly = append(l.truly, plan.Replacement{Machine: h.name, At: w.now})
}

// seenLate is how long ago a host may have come up that an old look does not show as up.
const seenLate = 10 * time.Second

// isReplacement: a step takes a host that works away for another of the wanted spec, or changes it. What people scale, mark and disturb
// does not count.
func (w *World) isReplacement(s plan.Step, h *host) bool {
	staying := w.count(w.isStaying)
	switch {
	case h == nil || h.deleting || w.deleting:
		return false
	case s.Verb == plan.UpdateInPlace:
		return h.update == nil
	case s.Verb != plan.Delete || h.marked != "" || !w.isReplaced(h) || !w.works(h):
		return false
	case !s.Counts && w.now.Sub(h.node) < seenLate:
		return false // on an old look it had not come up yet
	}
	return staying <= w.replicas || staying == w.replicas+1 && w.limits.surged
}

// replacedBeside counts the hosts but one that were truly replaced within a day.
func (w *World) replacedBeside(name string) int {
	names := map[string]bool{}
	for _, r := range w.limits.truly {
		if r.Machine != name && w.now.Sub(r.At) < limitPeriod {
			names[r.Machine] = true
		}
	}
	return len(names)
}

// judgeLimit: no more hosts are replaced, or changed in place, within a day than the user allows, and none while it is not known how many
// were.
func (w *World) judgeLimit(s plan.Step, fresh bool) {
	l := w.limits
	if !fresh || l.most == 0 || w.deleting || !w.initialised {
		return
	}
	begins := w.isReplacement(s, w.named(s.Machine))
	if s.Verb == plan.Create || s.Verb == plan.EnableDowngrade {
		begins = w.count(w.isStaying) >= w.replicas
	}
	n := w.replacedBeside(s.Machine)
	switch {
	case !begins:
	case l.garbled:
		w.blame("%s, and nobody can tell how many were replaced", s)
	case n >= l.most:
		w.blame("%s, and %d were replaced within a day, of at most %d", s, n, l.most)
	}
}

// isHeldByLimit: a host waits, as far as is noted, until another may be replaced.
func (w *World) isHeldByLimit(h *host) bool {
	l := w.limits
	if l.most == 0 || l.garbled {
		return l.garbled && l.most > 0
	}
	n := 0
	for _, r := range l.noted {
		if r.Machine != h.name && w.now.Before(r.At.Add(limitPeriod)) {
			n++
		}
	}
	return n >= l.most
}

// isForReader: a host is of another spec than is wanted, and a person must mend what is noted first.
func (w *World) isForReader(h *host) bool {
	return w.limits.garbled && w.limits.most > 0 && !h.deleting && (w.isReplaced(h) || w.isChangedInPlace(h))
}
