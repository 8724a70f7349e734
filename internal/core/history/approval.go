package history

import (
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// Approval is an approval that a person gave.
type Approval struct {
	// Revision is that of the spec that was approved; empty: a decision was taken.
	Revision string `json:"revision,omitempty"`
	// Decision is what was decided, as its annotation says; empty: a revision was approved.
	Decision string `json:"decision,omitempty"`
	// By is the user, as the API server knows them.
	By string `json:"by"`
}

// DecisionOf reads a decision from its annotations, as ApprovalOf does.
func DecisionOf(decision, by string) (a Approval, at time.Time, known bool) {
	a, at, known = ApprovalOf(decision, by)
	a.Decision, a.Revision = a.Revision, ""
	return a, at, known
}

// ApprovalOf reads an approval from its annotations: a revision, and a time with the user's name after it; false: it is not known who gave
// it.
func ApprovalOf(revision, by string) (a Approval, at time.Time, known bool) {
	stamp, user, _ := strings.Cut(by, " ")
	at, err := time.Parse(time.RFC3339, stamp)
	if revision == "" || user == "" || err != nil {
		return Approval{}, time.Time{}, false
	}
	return Approval{Revision: plaintext.Quote(revision, longestStep), By: plaintext.Quote(user, longestStep)}, at, true
}

// AddApproval records an approval at its place among the steps, once.
func (r *Record) AddApproval(a Approval, at time.Time) {
	e := Entry{Time: at.UTC(), Approval: &a}
	place := r.placeOf(e)
	if slices.ContainsFunc(r.Entries[:place], func(o Entry) bool { return o.Approval != nil && *o.Approval == a && o.Time.Equal(e.Time) }) {
		return
	}
	r.Entries = slices.Insert(r.Entries, place, e)
	r.bound()
}
