package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// ReplacementLimit is the reason of a wait until the limit of replacements lets the next one be.
const ReplacementLimit = "ReplacementLimit"

// ReplacementPeriod is within which time replacements are counted.
const ReplacementPeriod = 24 * time.Hour

// counted returns the machines but one that were replaced, or changed in place, within the last day, the first first.
func (s *state) counted(but string) []Replacement {
	var found []Replacement
	for _, r := range s.Group.Replacements {
		if r.Machine != but && s.Now.Before(r.At.Add(ReplacementPeriod)) {
			found = append(found, r)
		}
	}
	return found
}

// isLimited: no machine that is not counted yet may be replaced or changed in place now.
func (s *state) isLimited() bool { return s.overLimit("") }

// overLimit: a machine may not be replaced or changed in place now. One that is counted already, as it was begun and not finished, takes no
// other's place.
func (s *state) overLimit(machine string) bool {
	if s.Policy.MaxReplacements == 0 {
		return false
	}
	return s.Group.ReplacementsUnreadable != "" || len(s.counted(machine)) >= s.Policy.MaxReplacements
}

// allowed returns those machines that the limit lets be replaced or changed in place now.
func (s *state) allowed(of []*machine) []*machine {
	return slices.DeleteFunc(slices.Clone(of), func(m *machine) bool { return s.overLimit(m.Name) })
}

// heldByLimit: none of the outdated machines may be replaced now. With surge it is not known, as another is created, which of them goes.
func (s *state) heldByLimit(old []*machine) bool {
	return s.isLimited() && (s.Policy.Surge > 0 || len(s.allowed(old)) == 0)
}

// asReplacement notes on a step that replaces a machine, or changes it in place, that it counts. A machine that is one too many goes
// whatever the limit is, and counts as well. A person may have lowered the limit in the middle of a rollout, or another machine was counted
// before and then stayed.
func (s *state) asReplacement(v opinion) opinion {
	step := &v.decision.Step
	if step.Verb == Delete || step.Verb == UpdateInPlace {
		step.Counts = s.Policy.MaxReplacements > 0 && s.Group.ReplacementsUnreadable == ""
	}
	return v
}

// nextReplacement is when the limit lets another machine be replaced or changed in place, where it does not now; zero: time alone changes
// nothing.
func (s *state) nextReplacement() time.Time {
	if s.Group.ReplacementsUnreadable != "" {
		return time.Time{}
	}
	counted := s.counted("")
	return counted[len(counted)-s.Policy.MaxReplacements].At.Add(ReplacementPeriod)
}

// NextReplacement is when Policy.MaxReplacements lets another machine be replaced or changed in place, of a group that waits with the
// reason ReplacementLimit.
func NextReplacement(o Observed) time.Time { return newState(o).nextReplacement() }

// waitForLimit waits until another machine may be replaced or changed in place. It is told last, so that all else goes on.
func (s *state) waitForLimit() opinion {
	todo := s.those(func(m *machine) bool { return s.isReplaced(m) || s.isChangedInPlace(m) })
	if len(todo) == 0 || !s.isLimited() {
		return pass("nothing waits for the limit of replacements")
	}
	var names []string
	for _, m := range todo {
		names = append(names, m.Name)
	}
	what := count(len(todo), "machine") + " to be replaced or changed in place (" + strings.Join(names, ", ") + ")"
	if why := s.Group.ReplacementsUnreadable; why != "" {
		return wait("ReplacementsUnreadable", "%s, and how many were within 24 h is not known: %s", what, why)
	}
	var texts []string
	for _, r := range s.counted("") {
		texts = append(texts, r.String())
	}
	return wait(ReplacementLimit, "%s, at most %d may be within 24 h, and these were: %s; the next may be at %s",
		what, s.Policy.MaxReplacements, strings.Join(texts, ", "), timeText(s.nextReplacement()))
}

// String writes which machine was replaced, and when.
func (r Replacement) String() string { return fmt.Sprintf("%s at %s", r.Machine, timeText(r.At)) }

// timeText writes a moment.
func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }
