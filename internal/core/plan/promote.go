package plan

import (
	"fmt"
	"strings"
)

// promote lets a learner vote that has caught up, on a machine that stays. etcd takes one learner at a time, so that a machine
// that waits for it waits for all others.
func promote(s *state) opinion {
	if !s.Policy.EtcdOnly {
		return pass("what runs on the machines promotes its own member")
	}
	var later []string
	for _, e := range s.learners {
		if why := s.cannotPromote(e); why != "" {
			later = append(later, e.label()+" "+why)
			continue
		}
		return do(Step{Verb: PromoteMember, Member: e.ID, Machine: e.Machine}, "LearnerInSync", "learner %s has caught up; %s", e.label(),
			s.strength())
	}
	if len(later) > 0 {
		return pass("%s", strings.Join(later, "; "))
	}
	return pass("no member is a learner")
}

// isAboutToGo reports whether a machine that is to be replaced can go now. One that cannot must vote first, or it and those that wait
// for it would wait for ever.
func (s *state) isAboutToGo(m *machine) bool {
	return m.isMarked() && s.cannotReplace(m) == "" || s.isStillborn(m) && s.cannotDiscard(m) == ""
}

// cannotPromote says why a learner does not vote yet; empty: it may.
func (s *state) cannotPromote(e *Member) string {
	on := s.on(e.Machine)
	switch {
	case on == nil:
		return "is a learner for which no machine is known"
	case on.standing == leaving:
		return "is a learner on a machine that is being deleted"
	case s.isAboutToGo(on):
		return "is a learner on a machine that is about to be replaced"
	case !e.isSound():
		return "is a learner and " + describe(e.Health, e.Why)
	case !e.InSync:
		return fmt.Sprintf("is a learner that catches up, for %s", s.since(e.Since))
	}
	return ""
}
