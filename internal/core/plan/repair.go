package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// remediate deletes a machine that a health check or a person has marked; grow
// replaces it. Of several the most broken goes first. One that cannot go blocks no
// other that can.
func remediate(s *state) opinion {
	marked := s.marked()
	if len(marked) == 0 {
		return pass("no machine is marked to be replaced")
	}
	var later []string
	for _, m := range marked {
		if why := s.cannotReplace(m); why != "" {
			later = append(later, m.Name+" "+why)
			continue
		}
		why := m.Name + " is to be replaced: " + m.Marked
		v := s.takeAway(m, "Remediating", why)
		if v.decision.Step.Verb == Delete {
			v.decision.Step.Repair, v.decision.Step.Retry = true, s.retry(m)
		}
		return v
	}
	return pass("%s", strings.Join(later, "; "))
}

// marked returns the machines to be replaced: those first whose voter does not answer, or that have none, because the quorum loses nothing
// with them. Of these, and of the others, those that a person marked come first. Then follow those without a member, those that do not
// vote, the dead, the living; of them the one that serves least, the oldest.
func (s *state) marked() []*machine {
	marked := s.those(func(m *machine) bool { return m.isMarked() })
	slices.SortStableFunc(marked, func(a, b *machine) int {
		return cmp.Or(
			cmp.Compare(a.member.loss()/losesVoter, b.member.loss()/losesVoter),
			-cmp.Compare(a.byPerson(), b.byPerson()),
			cmp.Compare(a.member.loss(), b.member.loss()),
			compareService(a, b),
			cmp.Compare(a.health.rank(), b.health.rank()),
		)
	})
	return marked
}

// byPerson is 1 for a machine that a person marked.
func (m *machine) byPerson() int {
	if m.MarkedByPerson {
		return 1
	}
	return 0
}

// cannotReplace says why a marked machine stays for now; empty if it can go.
func (s *state) cannotReplace(m *machine) string {
	if why := cmp.Or(s.keepsMachine(), s.tooOften(m)); why != "" {
		return why
	}
	if v := s.prepared(); v.decided {
		return "could not be replaced: " + v.decision.Message
	}
	if s.isNew() {
		return ""
	}
	if why := s.cannotDelete(m); why != "" {
		return why
	}
	if why := s.busyWith(m); why != "" {
		return why
	}
	if s.serves(m) && s.staying() < s.Want.Replicas && !s.troublesOperator(m) {
		return fmt.Sprintf("still votes, and goes when all others are there: %d of %d are", s.staying(), s.Want.Replicas)
	}
	return ""
}

// kept waits while a marked machine stays.
func (s *state) kept() opinion {
	var texts []string
	for _, m := range s.marked() {
		texts = append(texts, fmt.Sprintf("%s is to be replaced (%s), and %s", m.Name, m.Marked, cmp.Or(s.cannotReplace(m), "may go")))
	}
	if len(texts) > 0 {
		return wait("CannotReplace", "%s", strings.Join(texts, "; "))
	}
	return pass("no machine is marked to be replaced")
}

// serves reports whether a machine, broken as it may be, still does something for
// the cluster that would be missed: its voter is not proven dead.
func (s *state) serves(m *machine) bool {
	if !s.Etcd.Ours() {
		return m.isUp() && m.standing != unhealthy
	}
	return s.mayAnswer(m)
}

// troublesOperator: an operator keeps etcd, the spec is refused, as it is while the operator does not find etcd healthy, and a machine is
// not proven healthy. All others cannot be there before it was replaced: it may be what the operator complains of.
func (s *state) troublesOperator(m *machine) bool {
	return s.Etcd.Operated() && s.Want.isRefused() && m.standing != complete
}

// mayAnswer: a voter that a machine holds, or may for all that is known, is not proven dead, and is
// not silent for long.
func (s *state) mayAnswer(m *machine) bool {
	return slices.ContainsFunc(s.mayHaveOn(m), func(e *Member) bool { return !e.Learner && s.Now.Before(e.answers()) })
}

// answers is until when a voter counts as one that answers: one of which nothing is known keeps
// others from joining, so that it cannot wait for them for ever.
func (m *Member) answers() time.Time {
	switch {
	case m.Health == Healthy, m.Health == Unknown && m.Since.IsZero():
		return forever
	case m.Health == Unknown:
		return m.Since.Add(silentVoterTimeout)
	}
	return time.Time{}
}

// forever is later than any moment at which something is decided.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// retry counts how many machines in a row were replaced before this one.
func (s *state) retry(m *machine) int {
	if s.brokeAgain(m) {
		return m.Retries + 1
	}
	return 0
}

// brokeAgain reports whether a machine replaced another and broke before it was well for long enough.
func (s *state) brokeAgain(m *machine) bool {
	return s.Now.Before(m.Replaced.Add(s.Policy.Repair.Healthy))
}

// tooOften says why the limits keep a machine from being replaced; empty if they do not.
func (s *state) tooOften(m *machine) string {
	if !s.brokeAgain(m) {
		return ""
	}
	if s.Policy.Repair.allowsNoneAfter(m.Retries) {
		return fmt.Sprintf("has reached the limit: %d replacements in a row, maxRetry is %d", m.Retries+1, s.Policy.Repair.Most)
	}
	if at := s.mayRetry(m); s.Now.Before(at) {
		return "replaced another that broke, and waits " + span(at.Sub(s.Now)) + " before it is replaced"
	}
	return ""
}

// allowsNoneAfter reports whether the limits allow no replacement of a machine that broke again after so many in a row.
func (r RepairLimits) allowsNoneAfter(retries int) bool { return r.Most >= 0 && retries >= r.Most }

// keepsMarked reports whether a marked machine stays until a person changes something, or the quorum does.
func (s *state) keepsMarked(m *machine) bool {
	if s.brokeAgain(m) && s.Policy.Repair.allowsNoneAfter(m.Retries) {
		return true
	}
	return s.Group.Initialized && (len(s.machines) <= 1 || s.Etcd.Known && s.irreplaceable(m))
}

// mayRetry is when the period between two replacements is over.
func (s *state) mayRetry(m *machine) time.Time { return m.Replaced.Add(s.Policy.Repair.Period) }
