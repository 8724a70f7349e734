package plan

import "strings"

// isUnapproved: machines are neither replaced nor changed in place because of the spec before a person has approved it.
func (s *state) isUnapproved() bool { return s.Group.Unapproved != "" }

// waitForApproval waits for a person who approves that machines are replaced or changed in place. It is told last, so that all else goes
// on.
func (s *state) waitForApproval() opinion {
	todo := s.those(func(m *machine) bool { return s.isReplaced(m) || s.isChangedInPlace(m) })
	if !s.isUnapproved() || len(todo) == 0 {
		return pass("nothing waits for an approval")
	}
	var texts []string
	for _, m := range todo {
		texts = append(texts, m.Name+": "+m.Outdated)
	}
	return wait("ApprovalRequired", "%s to be replaced or changed in place, and an approval is missing for revision %s of the spec: %s",
		count(len(todo), "machine"), s.Group.Unapproved, strings.Join(texts, "; "))
}
