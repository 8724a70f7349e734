package stacked

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"text/tabwriter"
)

// row is what was tried with all writes of a kind in one life.
type row struct {
	life            string
	write           write
	writes, sampled int
	tried, diverged map[outcome]int
}

// results are those of all lives.
type results struct {
	mu   sync.Mutex
	rows []*row
}

func (r *results) add(rows []*row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, rows...)
}

// outcomes are what is tried with each write.
var outcomes = []outcome{fails, unanswered, dies, stale}

// outcomes are what is tried with each write of a row: all, or with few writes one in turn.
func (r *row) outcomes(turn int) []outcome {
	all := []outcome{fails, unanswered, dies, stale}
	if slices.Contains(uncached, r.write.kind) {
		all = all[:3]
	}
	if *allWrites {
		return all
	}
	return all[turn%len(all):][:1]
}

// undisturbed is a life to compare with: its writes, how it ends, and how many turns it took.
type undisturbed struct {
	writes []write
	end    []string
	number string // the last that a machine was given
	turns  int
}

// disturb lives a life once as it is, and then again and again with one of its writes disturbed.
func (l life) disturb(t *testing.T, starts map[int]saved) []*row {
	var as undisturbed
	synctest.Test(t, func(t *testing.T) {
		r := l.live(t, starts, -1, done, manyTurns)
		if len(r.wrong) > 0 {
			t.Fatalf("undisturbed: %v", r.wrong)
		}
		as = undisturbed{r.writes, r.ending(), r.lastNumber(), r.turns}
	})
	t.Logf("undisturbed: %d writes, %d turns", len(as.writes), as.turns)
	rows := rowsOf(l.name, as.writes)
	for i, row := range rows {
		for _, at := range sample(as.writes, row.write) {
			row.sampled++
			for _, o := range row.outcomes(len(l.name) + i) {
				row.tried[o]++
				if wrong := l.try(t, starts, as, at, o); wrong != "" {
					row.diverged[o]++
					t.Errorf("%s, write %d of %d, %s: %s", l.name, at+1, len(as.writes), row.write, outcomeNames[o])
					t.Log(wrong)
				}
			}
		}
	}
	return rows
}

// try lives a life with one write disturbed, and says what is not as it is undisturbed; empty: nothing.
func (l life) try(t *testing.T, starts map[int]saved, as undisturbed, at int, o outcome) (wrong string) {
	synctest.Test(t, func(t *testing.T) {
		r := l.live(t, starts, at, o, 2*as.turns+20)
		if len(r.writes) <= at || r.writes[at] != as.writes[at] {
			r.fault("the write that was to be disturbed is not the same")
		}
		if got := r.lastNumber(); got != as.number && (o == fails || o == stale) {
			r.fault("the last number is %s, undisturbed %s", got, as.number)
		}
		wrong = strings.Join(append(r.wrong, difference(as.end, r.ending())), "\n")
	})
	return wrong
}

// rowsOf returns a row for each kind of write, in their order.
func rowsOf(name string, writes []write) []*row {
	var rows []*row
	for _, w := range writes {
		i := slices.IndexFunc(rows, func(r *row) bool { return r.write == w })
		if i < 0 {
			i = len(rows)
			rows = append(rows, &row{life: name, write: w, tried: map[outcome]int{}, diverged: map[outcome]int{}})
		}
		rows[i].writes++
	}
	return rows
}

// How many writes of a kind are disturbed: all, or of more so many, evenly spread. Most of a
// life's writes are of status.
const (
	sampleAll    = 4
	sampleStatus = 2
)

// sample returns the numbers of those writes of a kind that are disturbed.
func sample(writes []write, kind write) []int {
	var all, some []int
	for i, w := range writes {
		if w == kind {
			all = append(all, i)
		}
	}
	most := sampleAll
	switch {
	case !*allWrites:
		most = 1
	case kind.change == "status":
		most = sampleStatus
	}
	if len(all) <= most {
		return all
	}
	for i := range most {
		some = append(some, all[i*(len(all)-1)/max(most-1, 1)])
	}
	return some
}

func (w write) String() string { return strings.TrimSpace(w.verb + " " + w.kind + " " + w.change) }

// table shows what was tried, and how often it did not end as it should.
func (r *results) table() string {
	var text strings.Builder
	tried, diverged := 0, 0
	out := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	fmt.Fprint(out, "life\tobject\twrite\twrites\tof these tried")
	for _, o := range outcomes {
		fmt.Fprint(out, "\t", outcomeNames[o])
	}
	fmt.Fprintln(out)
	for _, l := range lives {
		if !slices.ContainsFunc(r.rows, func(row *row) bool { return row.life == l.name }) {
			fmt.Fprintln(out, l.name+"\tnot to its end: see above")
			tried, diverged = tried+1, diverged+1
		}
		for _, row := range r.rows {
			if row.life != l.name {
				continue
			}
			fmt.Fprintf(out, "%s\t%s\t%s %s\t%d\t%d", row.life, row.write.kind, row.write.verb, row.write.change, row.writes, row.sampled)
			for _, o := range outcomes {
				fmt.Fprint(out, "\t", row.cell(o))
				tried, diverged = tried+row.tried[o], diverged+row.diverged[o]
			}
			fmt.Fprintln(out)
		}
	}
	_ = out.Flush()
	fmt.Fprintf(&text, "tried %d diverged %d\n", tried, diverged)
	return text.String()
}

// cell tells of one outcome; secrets are never read from a cache, so that no read of theirs is stale.
func (r *row) cell(o outcome) string {
	switch {
	case r.tried[o] == 0:
		return "-"
	case r.diverged[o] > 0:
		return fmt.Sprintf("%d of %d DIVERGED", r.diverged[o], r.tried[o])
	}
	return fmt.Sprintf("%d as undisturbed", r.tried[o])
}
