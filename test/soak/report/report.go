// Package report sums up runs of `make soak`, as JSON and as one HTML page that needs nothing else: what operations met which faults, how
// long no write was acknowledged, and what the judge found. It does not judge.
package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/quorate/quorate/test/soak/history"
	"github.com/quorate/quorate/test/soak/judge"
)

// The bounds of the time without an acknowledged write, while three and more members have a quorum: in an operation alone, and in one that
// met a fault.
const (
	PlannedGap   = 2500 * time.Millisecond
	UnplannedGap = 5 * time.Second
)

// Alone is the fault of an operation that is to meet none.
const Alone = "none"

// bound is that of operations that met a fault.
func bound(fault string) time.Duration {
	if fault == Alone {
		return PlannedGap
	}
	return UnplannedGap
}

// Run is the history of one cluster.
type Run struct {
	Name    string
	Entries []history.Entry
}

// Report is what came of runs.
type Report struct {
	// Seed is what was drawn from.
	Seed     uint64    `json:"seed"`
	Clusters []Cluster `json:"clusters"`
	// Hours are those of all clusters together.
	Hours        float64 `json:"hours"`
	Operations   int     `json:"operations"`
	Acknowledged int     `json:"acknowledged"`
	Unknown      int     `json:"unknown"`
	Lost         int     `json:"lost"`
	Violations   int     `json:"violations"`
	Rounds       int     `json:"rounds"`
	// Pairs are the pairs of an operation and a fault that were met, by name.
	Pairs []Pair `json:"pairs"`
}

// Cluster is what came of one cluster.
type Cluster struct {
	Name    string        `json:"name"`
	Seconds float64       `json:"seconds"`
	Verdict judge.Verdict `json:"verdict"`
	Rounds  []judge.Round `json:"rounds"`
	Gaps    []judge.Span  `json:"gaps"`
	// Manager is what the process of the management plane used.
	Manager []Usage `json:"manager,omitempty"`
}

// Pair is an operation that met a fault.
type Pair struct {
	Operation string `json:"operation"`
	Fault     string `json:"fault"`
	Met       int    `json:"met"`
	// Gap is the longest time without an acknowledged write, in seconds; Over reports whether it is longer than Bound.
	Gap   float64 `json:"gapSeconds"`
	Bound float64 `json:"boundSeconds"`
	Over  bool    `json:"over"`
	// Settled is the longest time from the beginning of the operation until all was as wanted, in seconds.
	Settled float64 `json:"settledSeconds"`
}

// shownGap is the shortest time without an acknowledged write that a report shows.
const shownGap = time.Second

// limit is how long the judge may look at one object.
const limit = time.Minute

// Of judges runs and sums them up.
func Of(seed uint64, runs []Run) Report {
	r := Report{Seed: seed}
	pairs := map[[2]string]*Pair{}
	for _, run := range runs {
		c := Cluster{
			Name: run.Name, Seconds: float64(lasted(run.Entries)) / float64(time.Second), Verdict: judge.Judge(run.Entries, limit),
			Rounds: judge.Rounds(run.Entries), Gaps: judge.Gaps(run.Entries, shownGap),
			Manager: usages(run.Entries),
		}
		r.Clusters = append(r.Clusters, c)
		r.Hours += c.Seconds / 3600
		r.Operations += c.Verdict.Operations
		r.Acknowledged += c.Verdict.Acknowledged
		r.Unknown += c.Verdict.Unknown
		r.Lost += c.Verdict.Lost
		r.Violations += len(c.Verdict.Violations)
		r.Rounds += len(c.Rounds)
		for _, round := range c.Rounds {
			if round.Met {
				meet(pairs, round)
			}
		}
	}
	for _, p := range pairs {
		p.Bound = bound(p.Fault).Seconds()
		p.Over = p.Gap > p.Bound
		r.Pairs = append(r.Pairs, *p)
	}
	slices.SortFunc(r.Pairs, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(a.Operation, b.Operation), cmp.Compare(a.Fault, b.Fault))
	})
	return r
}

// meet adds a round to its pair.
func meet(pairs map[[2]string]*Pair, round judge.Round) {
	key := [2]string{round.Operation, round.Fault}
	if pairs[key] == nil {
		pairs[key] = &Pair{Operation: round.Operation, Fault: round.Fault}
	}
	p := pairs[key]
	p.Met++
	p.Gap = max(p.Gap, time.Duration(round.Gap).Seconds())
	p.Settled = max(p.Settled, time.Duration(round.Settled-round.Began).Seconds())
}

// lasted returns when the last entry ended.
func lasted(all []history.Entry) int64 {
	var last int64
	for _, e := range all {
		last = max(last, e.Begin, e.End)
	}
	return last
}
