package history

import (
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/program/plaintext"
)

// Approval is an approval that a person gave, a decision that they took, or something that they asked for.
type Approval struct {
	// Revision is that of the spec that was approved; empty: a decision was taken, or something was asked for.
	Revision string `json:"revision,omitempty"`
	// Decision is what was decided, as its annotation says; empty: a revision was approved.
	Decision string `json:"decision,omitempty"`
	// Request is what was asked for, such as "replace demo-cp-1=2026-11-23T04:05:06Z"; empty: something was approved or decided.
	Request string `json:"request,omitempty"`
	// By is the user, as the API server knows them.
	By string `json:"by"`
}

// DecisionOf reads a decision from its annotations, as ApprovalOf does.
func DecisionOf(decision, by string) (a Approval, at time.Time, known bool) {
	a, at, known = ApprovalOf(decision, by)
	a.Decision, a.Revision = a.Revision, ""
	return a, at, known
}

// RequestOf reads what was asked for from its annotations, as ApprovalOf does. what names the kind of request.
func RequestOf(what, request, by string) (a Approval, at time.Time, known bool) {
	a, at, known = ApprovalOf(request, by)
	if known {
		a.Request, a.Revision = what+" "+a.Revision, ""
	}
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
	if slices.ContainsFunc(r.Entries[:place], e.isSameApproval) {
		return
	}
	r.Entries = slices.Insert(r.Entries, place, e)
	r.bound()
}

// isSameApproval reports whether two entries are of one approval.
func (e Entry) isSameApproval(o Entry) bool {
	return e.Approval != nil && o.Approval != nil && *o.Approval == *e.Approval && o.Time.Equal(e.Time)
}
