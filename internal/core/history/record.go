package history

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/program/plaintext"
)

// MaxEntries is how many entries a record has at most. The oldest go first.
const MaxEntries = 50

// The most bytes that a text of an entry may have, and the most fields that a change names.
const (
	longestStep = 256
	longestText = 512
	mostFields  = 20
)

// Record is what was done to one group of machines, and who changed its spec.
type Record struct {
	// Generation is that of the newest spec whose change is recorded; 0: of none yet.
	Generation int64 `json:"generation,omitempty"`
	// Entries are in the order of their times, the oldest first.
	Entries []Entry `json:"entries"`
}

// Entry is one step, one change of the spec, an approval, or a note.
type Entry struct {
	// Time is when the step was begun, or the spec was changed; of several in a row, the first time.
	Time time.Time `json:"time"`
	// Count is how often the same happened in a row, and Last when it did last; 0: once.
	Count int       `json:"count,omitempty"`
	Last  time.Time `json:"last,omitzero"`

	// Step is the step in words; empty: it is no step. Verb and Machine are of it, and Ahead says that the created machine was held back.
	Step    string    `json:"step,omitempty"`
	Verb    plan.Verb `json:"verb,omitempty"`
	Machine string    `json:"machine,omitempty"`
	Ahead   bool      `json:"ahead,omitempty"`
	// Rule, Reason and Message are those of the decision.
	Rule    string `json:"rule,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Outcome is what became of the step, and Error why it failed.
	Outcome Outcome `json:"outcome,omitempty"`
	Error   string  `json:"error,omitempty"`
	// Duration is how long the step's write took, and Took how long it was until the step's effect was seen. That is a created machine
	// complete, a deleted or released one gone, an update in place recorded; of other steps the write itself. Zero: it is not seen yet,
	// or never came about.
	Duration metav1.Duration `json:"duration,omitzero"`
	Took     metav1.Duration `json:"took,omitzero"`

	// Change is who changed what of the spec; nil: it is no change.
	Change *Change `json:"change,omitempty"`
	// Approval is who approved which revision of the spec; nil: it is no approval.
	Approval *Approval `json:"approval,omitempty"`
	// Note says what befell the record itself; empty: nothing.
	Note string `json:"note,omitempty"`
}

// Outcome is what became of a step.
type Outcome string

// The values of Outcome.
const (
	Done   Outcome = "done"
	Failed Outcome = "failed"
)

// Add records a step that was tried: when it was begun, how long its write lasted, and how it failed, if it did. The same
// failure again is counted.
func (r *Record) Add(d plan.Decision, at time.Time, lasted time.Duration, failure error) {
	e := Entry{
		Time: at.UTC(), Step: plaintext.Beginning(d.Step.String(), longestStep), Verb: d.Step.Verb, Machine: d.Step.Machine, Ahead: d.Step.Hold,
		Rule: d.Rule, Reason: d.Reason, Message: plaintext.Quote(d.Message, longestText), Outcome: Done, Duration: rounded(lasted),
	}
	switch {
	case failure != nil:
		e.Outcome, e.Error = Failed, plaintext.Quote(failure.Error(), longestText)
		if r.countFailure(e) {
			return
		}
	case e.effect() == immediate:
		e.Took = e.Duration
	}
	if failure == nil && e.Verb == plan.RecordUpdate {
		r.endUpdate(e)
	}
	r.Entries = append(r.Entries, e)
	r.bound()
}

// countFailure reports whether the newest entry is the same failed step, which then counts this one too.
func (r *Record) countFailure(e Entry) bool {
	if len(r.Entries) == 0 {
		return false
	}
	last := &r.Entries[len(r.Entries)-1]
	if last.Outcome != Failed || last.Step != e.Step || last.Rule != e.Rule || last.Reason != e.Reason {
		return false
	}
	last.repeat(e.Time)
	last.Message, last.Error, last.Duration = e.Message, e.Error, e.Duration
	return true
}

// repeat counts one more of the same.
func (e *Entry) repeat(at time.Time) {
	e.Count, e.Last = max(e.Count, 1)+1, at
}

// Merge puts what was recorded before in front of what was recorded since.
func (r *Record) Merge(before Record) {
	r.Generation = max(r.Generation, before.Generation)
	r.Entries = slices.DeleteFunc(r.Entries, func(e Entry) bool { // an approval stays on the object, and is seen again
		return e.Approval != nil && slices.ContainsFunc(before.Entries, e.isSameApproval)
	})
	r.Entries = slices.Concat(before.Entries, r.Entries)
	r.bound()
}

// bound drops the oldest of too many entries.
func (r *Record) bound() {
	if over := len(r.Entries) - MaxEntries; over > 0 {
		r.Entries = slices.Delete(r.Entries, 0, over)
	}
}

// rounded is a duration as it is recorded.
func rounded(d time.Duration) metav1.Duration {
	return metav1.Duration{Duration: max(d.Round(time.Millisecond), time.Millisecond)}
}
