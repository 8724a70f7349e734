// Package judge decides from the history of a run of `make soak` whether the API of the cluster kept its promises. Each object is
// linearizable, watches miss nothing, and a lease has one holder. In the end what was acknowledged is there, and all members of etcd hold
// the same. The judge is a pure function of the history: it can judge a file again, and knows nothing of how the run was made.
//
// What got no answer may have been done or not. Such a write counts as done from the moment at which a client saw its value. One that
// no client ever saw cannot have mattered, because every write names the revision that its writer had seen.
package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/test/soak/history"
)

// Rule is a promise that can be broken.
type Rule string

// The rules.
const (
	// Linear: the operations on one object can be put in an order that explains all answers.
	Linear Rule = "linearizable"
	// Undecided: the search for such an order took too long.
	Undecided Rule = "undecided"
	// Stale: a list is not older than what was acknowledged before it was asked for.
	Stale Rule = "stale list"
	// Unique: a revision belongs to one write, and an object has one value at it.
	Unique Rule = "revision once"
	// Bump: after a recovery, no revision is given again that was given before.
	Bump Rule = "revision after recovery"
	// Gap: a watch delivers each write after the revision that it began with.
	Gap Rule = "watch without gap"
	// Duplicate: a watch delivers no write twice.
	Duplicate Rule = "watch without duplicate"
	// Back: a watch never goes back.
	Back Rule = "watch without step back"
	// Gone: the revision of a watch is gone only after a recovery, and once.
	Gone Rule = "watch goes on"
	// Behind: in the end a watch has delivered the last write.
	Behind Rule = "watch to the end"
	// Holders: a lease has one holder.
	Holders Rule = "one holder"
	// Lost: what was acknowledged is there in the end.
	Lost Rule = "acknowledged is kept"
	// Same: all members of etcd hold the same.
	Same Rule = "same data"
	// Rest: each operation ends, and after each round all is as wanted.
	Rest Rule = "as wanted"
	// Complete: the history has what it takes to judge it.
	Complete Rule = "complete history"
)

// Violation is a promise that was broken.
type Violation struct {
	Rule Rule `json:"rule"`
	// At is when, in nanoseconds since the run began.
	At   int64  `json:"at"`
	Text string `json:"text"`
}

// Verdict is what came of judging a history.
type Verdict struct {
	// Operations are those of clients that were judged, events of watches among them. Acknowledged are writes, and Unknown those that
	// may be done or not.
	Operations   int `json:"operations"`
	Acknowledged int `json:"acknowledged"`
	Unknown      int `json:"unknown"`
	Events       int `json:"events"`
	Objects      int `json:"objects"`
	Holds        int `json:"holds"`
	Members      int `json:"members"`
	// Lost are acknowledged writes that are not there in the end.
	Lost       int         `json:"lost"`
	Violations []Violation `json:"violations"`
}

// trial is a history that is being judged.
type trial struct {
	all     []history.Entry
	verdict Verdict
	// recovered are the recoveries, by their end.
	recovered []history.Entry
}

// Judge judges a history. The search for an order of the operations on one object is given up after limit; 0: never.
func Judge(all []history.Entry, limit time.Duration) Verdict {
	t := &trial{all: all}
	for _, e := range all {
		if e.Kind == history.Recovered {
			t.recovered = append(t.recovered, e)
		}
		t.count(e)
	}
	slices.SortFunc(t.recovered, func(a, b history.Entry) int { return cmp.Compare(a.End, b.End) })
	t.complete()
	t.objects(limit)
	t.lists()
	t.revisions()
	t.watches()
	t.leases()
	t.kept()
	t.members()
	t.rests()
	slices.SortStableFunc(t.verdict.Violations, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return t.verdict
}

// count counts what is judged.
func (t *trial) count(e history.Entry) {
	v := &t.verdict
	switch e.Kind {
	case history.Swap, history.Create:
		v.Operations++
		switch e.Outcome {
		case history.OK:
			v.Acknowledged++
		case history.Unknown:
			v.Unknown++
		}
	case history.Get, history.List, history.Watch:
		v.Operations++
	case history.Event:
		v.Operations++
		v.Events++
	case history.Hold:
		v.Operations++
		v.Holds++
	case history.Hash:
		v.Members++
	}
}

// breaks notes a violation.
func (t *trial) breaks(rule Rule, at int64, format string, args ...any) {
	t.verdict.Violations = append(t.verdict.Violations, Violation{rule, at, fmt.Sprintf(format, args...)})
}

// complete: somebody wrote, watched, read all in the end, and asked the members.
func (t *trial) complete() {
	missing := map[string]bool{"acknowledged write": t.verdict.Acknowledged == 0, "event of a watch": t.verdict.Events == 0,
		"hash of a member": t.verdict.Members == 0, "hold of a lease": t.verdict.Holds == 0, "list of all in the end": t.last(SwapPrefix) == nil}
	for _, what := range []string{"acknowledged write", "event of a watch", "hash of a member", "hold of a lease", "list of all in the end"} {
		if missing[what] {
			t.breaks(Complete, 0, "there is no %s", what)
		}
	}
}

// SwapPrefix and CreatePrefix begin the names of objects that are compared and swapped, and of those that are only created. A list of the
// end has one of them as its object.
const (
	SwapPrefix   = "cas-"
	CreatePrefix = "new-"
)

// last returns the last list of all objects with names that begin so; nil: there is none.
func (t *trial) last(prefix string) *history.Entry {
	for i := len(t.all) - 1; i >= 0; i-- {
		if e := &t.all[i]; e.Kind == history.List && e.Outcome == history.OK && e.Object == prefix && e.Client == EndClient {
			return e
		}
	}
	return nil
}

// EndClient is the client that reads all in the end.
const EndClient = "end"

// givenUp reports whether a recovery may have lost what was acknowledged at a moment.
func (t *trial) givenUp(at int64) bool {
	return slices.ContainsFunc(t.recovered, func(r history.Entry) bool { return r.Kept < at && at <= r.End })
}

// rests: each operation ends, and after each round all is as wanted.
func (t *trial) rests() {
	for _, e := range t.all {
		switch {
		case e.Kind == history.Settled && e.Outcome != history.OK:
			t.breaks(Rest, e.End, "round %d: %s", e.Round, e.Value)
		case e.Kind == history.Operation && e.Outcome != history.OK:
			t.breaks(Rest, e.End, "round %d: %s did not end: %s", e.Round, e.Client, e.Error)
		}
	}
}
