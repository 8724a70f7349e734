package plan_test

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/quorate/quorate/internal/core/check"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/plan/rows"
)

var update = flag.Bool("update", false, "rewrite what testdata says the rules say; read the difference before you keep it")

// eachRow runs a file of testdata.
func eachRow(t *testing.T, file string, answer func(o plan.Observed, asked []string) []string) {
	t.Helper()
	rows.Answer(t, filepath.Join("testdata", file), *update, answer)
}

// TestNext: one state, one decision.
func TestNext(t *testing.T) {
	given := map[string]bool{}
	eachRow(t, "next.txt", func(o plan.Observed, _ []string) []string {
		d := plan.Next(o)
		if err := check.Decision(o, d); err != nil {
			t.Errorf("%s is refused: %v", d, err)
		}
		if s := d.Step; s.Verb == plan.Create && s.Machine != fmt.Sprintf(o.Want.NameFormat, strconv.Itoa(s.Number)) {
			t.Errorf("%s has the number %d", s, s.Number)
		}
		reason := d.Reason
		if slices.ContainsFunc(o.Cluster.Chores, func(c plan.Chore) bool { return c.Reason == reason }) {
			reason = plan.ChoreReason
		}
		given[d.Rule+": "+reason+" "+string(d.Step.Verb)] = true
		again := ""
		if d.Again > 0 {
			again = ", again in " + d.Again.String()
		}
		return []string{fmt.Sprintf("%s (%s, %s%s): %s", d.Step, d.Rule, d.Reason, again, d.Message)}
	})
	// The rules' own list of what they may say is complete, and no rule is silent in the rows.
	for _, r := range plan.Rules() {
		for _, g := range r.Gives {
			key := r.Name + ": " + g.Word + " " + string(g.Verb)
			if !given[key] {
				t.Errorf("no row of next.txt makes rule %s", key)
			}
			delete(given, key)
		}
	}
	for key := range given {
		t.Errorf("rule %s: not in the rule's list", key)
	}
}

// TestExplain: one state, what every rule says of it.
func TestExplain(t *testing.T) {
	eachRow(t, "explain.txt", func(o plan.Observed, _ []string) []string {
		var lines []string
		for _, v := range plan.Explain(o) {
			said := v.Because
			if v.Decided {
				said = v.Decision.String()
			}
			lines = append(lines, fmt.Sprintf("%-20s %s", v.Rule, said))
		}
		return lines
	})
}

// TestExplainFirst: what Explain says first is what Next decides.
func TestExplainFirst(t *testing.T) {
	eachRow(t, "next.txt", func(o plan.Observed, below []string) []string {
		want := plan.Next(o)
		for _, v := range plan.Explain(o) {
			if v.Rule == "" || v.Decided == (v.Because != "") || v.Decided == (v.Decision == plan.Decision{}) {
				t.Errorf("verdict without name, or with and without a decision: %+v", v)
			}
			if v.Decided {
				if v.Decision != want {
					t.Errorf("Explain decides %s, Next decides %s", v.Decision, want)
				}
				return below
			}
		}
		t.Errorf("no rule decided")
		return below
	})
}
