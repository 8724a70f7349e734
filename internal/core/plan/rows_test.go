package plan

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite what testdata says the rules say; read the difference before you keep it")

// rows runs a file of testdata. Every line that is neither indented nor a comment
// is a state; the indented lines below it are what answer must say of that state.
// answer is handed the lines that are there, since some of them are questions.
func rows(t *testing.T, file string, answer func(o Observed, asked []string) []string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	var rewritten []string
	for i := 0; i < len(lines); {
		line := lines[i]
		at := i + 1
		i++
		rewritten = append(rewritten, line)
		if line == "" || line[0] == '#' {
			continue
		}
		var below []string
		for i < len(lines) && strings.HasPrefix(lines[i], "    ") {
			below = append(below, strings.TrimSpace(lines[i]))
			i++
		}
		o, err := parse(line)
		if err != nil {
			t.Errorf("%s:%d: %s: %v", path, at, line, err)
			continue
		}
		got := answer(o, below)
		for _, l := range got {
			rewritten = append(rewritten, "    "+l)
		}
		if g, w := strings.Join(got, "\n"), strings.Join(below, "\n"); g != w && !*update {
			t.Errorf("%s:%d: %s\n got  %s\n want %s", path, at, line, g, w)
		}
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(rewritten, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestNext: one state, one decision.
func TestNext(t *testing.T) {
	given := map[string]bool{}
	rows(t, "next.txt", func(o Observed, _ []string) []string {
		d := Next(o)
		if err := Check(o, d); err != nil {
			t.Errorf("%s is refused: %v", d, err)
		}
		if s := d.Step; s.Verb == Create && s.Machine != fmt.Sprintf(o.Want.NameFormat, strconv.Itoa(s.Number)) {
			t.Errorf("%s has the number %d", s, s.Number)
		}
		reason := d.Reason
		if slices.ContainsFunc(o.Cluster.Chores, func(c Chore) bool { return c.Reason == reason }) {
			reason = ChoreReason
		}
		given[d.Rule+": "+reason+" "+string(d.Step.Verb)] = true
		again := ""
		if d.Again > 0 {
			again = ", again in " + d.Again.String()
		}
		return []string{fmt.Sprintf("%s (%s, %s%s): %s", d.Step, d.Rule, d.Reason, again, d.Message)}
	})
	// The rules' own list of what they may say is complete, and no rule is silent in the rows.
	for _, r := range Rules() {
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
	rows(t, "explain.txt", func(o Observed, _ []string) []string {
		var lines []string
		for _, v := range Explain(o) {
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
	rows(t, "next.txt", func(o Observed, below []string) []string {
		want := Next(o)
		for _, v := range Explain(o) {
			if v.Rule == "" || v.Decided == (v.Because != "") || v.Decided == (v.Decision == Decision{}) {
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
