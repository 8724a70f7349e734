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
		case s.Verb == plan.EnableDowngrade:
			s.Version = w
		case s.Verb == plan.Compact:
			s.Revision, _ = strconv.ParseInt(w, 10, 64)
		case s.Verb == plan.DropChoice:
			s.Choice = decision(o, w)
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

// decision reads the digest of a person's decision; "it" is the first.
func decision(o plan.Observed, text string) string {
	if text == "it" {
		return o.Choices[0].Digest
	}
	return text
}
