package rows

import (
	"strconv"
	"strings"

	"github.com/quorate/quorate/internal/core/plan"
)

// Step reads a step: "Create cp-4 in a", "RemoveMember e3", "Delete cp-2 counted".
func Step(o plan.Observed, text string) plan.Step {
	words := strings.Fields(text)
	s := plan.Step{Verb: plan.Verb(words[0])}
	if chore, is := strings.CutPrefix(words[0], string(plan.Write)); is {
		s = plan.Step{Verb: plan.Write, Chore: chore}
	}
	for i, w := range words[1:] {
		switch {
		case argument(o, &s, w):
		case i == 0 && strings.HasPrefix(w, "e"):
			s.Member = w
		case i == 0:
			s.Machine = w
		case w == "first" && s.Verb == plan.UpdateInPlace:
			s.First = true
		case w == "counted":
			s.Counts = true
		case w == "first":
			s.Init = true
		case w == "seed":
			s.Seed = true
		case w == "ahead":
			s.Hold = true
		default:
			s.Domain = strings.TrimPrefix(w, "in")
		}
	}
	return s
}

// argument reads what a step is about that is no machine and no member. It reports whether the step has such a thing.
func argument(o plan.Observed, s *plan.Step, text string) bool {
	switch s.Verb {
	case plan.EnableDowngrade:
		s.Version = text
	case plan.Compact:
		s.Revision, _ = strconv.ParseInt(text, 10, 64)
	case plan.DropChoice:
		s.Choice = decision(o, text)
	default:
		return false
	}
	return true
}

// decision reads the digest of a person's decision; "it" is the first.
func decision(o plan.Observed, text string) string {
	if text == "it" {
		return o.Choices[0].Digest
	}
	return text
}
