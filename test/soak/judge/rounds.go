package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/test/soak/history"
)

// Round is what came of an operation that was to meet a fault.
type Round struct {
	Number    int    `json:"round"`
	Operation string `json:"operation"`
	Fault     string `json:"fault,omitempty"`
	Hit       string `json:"hit,omitempty"`
	Proof     string `json:"proof,omitempty"`
	// Met: the fault bit while the operation was under way.
	Met bool `json:"met"`
	// Began and Settled are when the operation began, and when all was as wanted again.
	Began   int64 `json:"began"`
	Ended   int64 `json:"ended"`
	Settled int64 `json:"settled"`
	// Gap is the longest time without an acknowledged write of any client from Began to Settled, and GapAt when it began.
	Gap   int64 `json:"gap"`
	GapAt int64 `json:"gapAt"`
	// Waits is what the control plane waited for instead of being as wanted.
	Waits string `json:"waits,omitempty"`
	Error string `json:"error,omitempty"`
}

// Rounds returns the rounds of a history in their order.
func Rounds(all []history.Entry) []Round {
	byNumber := map[int]*Round{}
	faults := map[int]history.Entry{}
	var acknowledged []int64
	for _, e := range all {
		switch e.Kind {
		case history.Operation:
			byNumber[e.Round] = &Round{Number: e.Round, Operation: e.Client, Began: e.Begin, Ended: e.End, Error: e.Error}
		case history.Fault:
			faults[e.Round] = e
		case history.Swap, history.Create:
			if e.Outcome == history.OK {
				acknowledged = append(acknowledged, e.End)
			}
		}
	}
	for _, e := range all {
		if r := byNumber[e.Round]; e.Kind == history.Settled && r != nil {
			r.Settled = e.End
			if e.Outcome != history.OK {
				r.Waits = e.Value
			}
		}
	}
	slices.Sort(acknowledged)
	var rounds []Round
	for _, r := range byNumber {
		f := faults[r.Number]
		r.Fault, r.Hit, r.Proof = f.Client, f.Object, f.Value
		r.Met = f.Outcome == history.OK && f.Begin >= r.Began && f.Begin <= r.Ended
		r.Gap, r.GapAt = longest(acknowledged, r.Began, max(r.Settled, r.Ended))
		rounds = append(rounds, *r)
	}
	slices.SortFunc(rounds, func(a, b Round) int { return cmp.Compare(a.Number, b.Number) })
	return rounds
}

// longest returns the longest time without a moment between two moments, and when it began. A gap counts whole that reaches over the edges.
func longest(moments []int64, from, to int64) (gap, at int64) {
	i, _ := slices.BinarySearch(moments, from)
	last := from
	if i > 0 {
		last = moments[i-1]
	}
	for _, m := range moments[i:] {
		if m-last > gap {
			gap, at = m-last, last
		}
		last = m
		if m > to {
			return gap, at
		}
	}
	if to-last > gap {
		gap, at = to-last, last
	}
	return gap, at
}

// Span is a time without an acknowledged write.
type Span struct {
	Begin int64 `json:"begin"`
	End   int64 `json:"end"`
}

// Gaps returns the times without an acknowledged write of any client that are longer than a bound, in their order.
func Gaps(all []history.Entry, above time.Duration) []Span {
	var moments []int64
	for _, e := range all {
		if (e.Kind == history.Swap || e.Kind == history.Create) && e.Outcome == history.OK {
			moments = append(moments, e.End)
		}
	}
	slices.Sort(moments)
	var gaps []Span
	for i := 1; i < len(moments); i++ {
		if moments[i]-moments[i-1] > int64(above) {
			gaps = append(gaps, Span{moments[i-1], moments[i]})
		}
	}
	return gaps
}
