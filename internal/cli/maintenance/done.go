package maintenance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cli/command"
	"github.com/quorate/quorate/internal/core/plan"
)

// shrinking follows a defragmentation of all members. A member is done when it has nothing to give back, or its data have become smaller.
type shrinking struct {
	size map[string]int64
	done map[string]bool
}

func newShrinking() *shrinking { return &shrinking{map[string]int64{}, map[string]bool{}} }

// left names the members that are not done.
func (s *shrinking) left(e Etcd) string {
	var left []string
	for _, m := range e.Members {
		if !m.answered() {
			left = append(left, fmt.Sprintf("%s does not answer: %s", label(m), m.Why))
			continue
		}
		before, seen := s.size[m.ID]
		if !seen {
			s.size[m.ID] = m.Size
		}
		if !plan.GivesBack(m.Size, m.InUse) || seen && m.Size < before {
			s.done[m.ID] = true
		}
		if !s.done[m.ID] {
			// The same text until the member is done: each other one is a line on the screen.
			left = append(left, fmt.Sprintf("%s is not defragmented yet (%s)", label(m), size(s.size[m.ID])))
		}
	}
	if len(e.Members) == 0 {
		return "no member answers"
	}
	return strings.Join(left, "; ")
}

// label names a member by its machine, its name or its ID.
func label(m Member) string { return cmp.Or(m.Machine, m.Name, m.ID) }

// alarms says which members raise NOSPACE; empty: none does.
func alarms(e Etcd) string {
	var raised []string
	for _, m := range e.Members {
		if slices.Contains(m.Alarms, plan.NoSpace) {
			raised = append(raised, label(m)+" raises "+plan.NoSpace)
		}
	}
	for _, text := range e.StrayAlarms {
		if strings.Contains(text, plan.NoSpace) {
			raised = append(raised, text)
		}
	}
	if len(e.Members) == 0 {
		return "no member answers"
	}
	return strings.Join(raised, "; ")
}

// notLeading says that the member on a machine does not lead; empty: it does.
func notLeading(e Etcd, on string) string {
	for _, m := range e.Members {
		if m.Leader {
			if m.Machine == on {
				return ""
			}
			return label(m) + " leads"
		}
	}
	return "no member leads"
}

// canLead reports whether a member may be asked to lead.
func canLead(m Member) bool {
	return !m.Learner && m.Health == plan.Healthy && m.answered() && m.Machine != ""
}

// successor is the machine whose member is to lead: the one that is given, or that of the healthy voter which is behind least.
func successor(e Etcd, given string) (string, error) {
	if given != "" {
		return given, mayLead(e, given)
	}
	var best *Member
	for i := range e.Members {
		if m := &e.Members[i]; canLead(*m) && !m.Leader && (best == nil || *m.Behind < *best.Behind) {
			best = m
		}
	}
	if best == nil {
		return "", command.Usagef("no other member of %s can lead", e.Group)
	}
	return best.Machine, nil
}

// mayLead says why the member on a machine cannot be asked to lead; nil: it can.
func mayLead(e Etcd, on string) error {
	for _, m := range e.Members {
		switch {
		case m.Machine != on:
		case m.Leader:
			return command.Usagef("the member on %s leads already", on)
		case !canLead(m):
			return command.Usagef("the member on %s cannot lead: it is a learner, or not healthy", on)
		default:
			return nil
		}
	}
	return command.Usagef("invalid --to %q: no member is on that machine", on)
}
