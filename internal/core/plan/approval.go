package plan

import (
	"fmt"
	"strings"
)

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
	return wait("ApprovalRequired", "%s to be replaced or changed in place, and nobody has approved revision %s of the spec: %s", count(len(todo), "machine"), s.Group.Unapproved, strings.Join(texts, "; "))
}

// checkApproved refuses what begins a rollout, or an update in place, that a person has not approved, or outside of windows.
func checkApproved(o Observed, what string) error {
	if o.Group.Unapproved == "" {
		return checkOpen(o, what)
	}
	return fmt.Errorf("%s, and nobody has approved revision %s of the spec", what, o.Group.Unapproved)
}

// checkStays: while nobody has approved a rollout, or there is no backup for it, a machine that may have served, and that nobody marked,
// goes only where others are enough.
func checkStays(o Observed, gone Machine, staying int) error {
	if staying >= o.Want.Replicas || gone.isMarked() || !hasCome(o, gone) {
		return nil
	}
	if err := checkBackup(o, gone.Name+" would be replaced"); err != nil {
		return err
	}
	return checkApproved(o, gone.Name+" would be replaced")
}

// checkLacking refuses what prepares a rollout that a person has not approved, or that the limit holds, unless machines are missing, which
// wait for nobody.
func checkLacking(o Observed, what string) error {
	staying := 0
	for _, m := range o.Machines {
		if !m.Deleting {
			staying++
		}
	}
	if staying < o.Want.Replicas {
		return nil
	}
	if err := checkApproved(o, what); err != nil {
		return err
	}
	if err := checkBackup(o, what); err != nil {
		return err
	}
	return checkLimitLeft(o, what)
}
