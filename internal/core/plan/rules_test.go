package plan

import (
	"os"
	"regexp"
	"testing"
	"time"
)

// TestRulesDescribed: every rule and every reason can be read by a person.
func TestRulesDescribed(t *testing.T) {
	camel := regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	seen := map[string]bool{}
	for _, r := range Rules() {
		if r.Name == "" || r.Says == "" || seen[r.Name] {
			t.Errorf("rule %q: no name, no text, or twice", r.Name)
		}
		seen[r.Name] = true
		for _, g := range r.Gives {
			if !camel.MatchString(g.Word) || g.Says == "" {
				t.Errorf("rule %s: reason %q is not one CamelCase word with a text", r.Name, g.Word)
			}
		}
	}
}

// TestRulesDocumented: docs/rules.md is what the rules are.
func TestRulesDocumented(t *testing.T) {
	got, err := os.ReadFile("../../../docs/rules.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != Document() {
		t.Error("docs/rules.md is not what the rules are: run go generate ./internal/core/plan")
	}
}

// TestSpan: times are written so coarsely that a message does not change with every look.
func TestSpan(t *testing.T) {
	for want, from := range map[string][2]time.Duration{
		"less than 1 min": {-time.Hour, time.Minute - 1},
		"1 min":           {time.Minute, 2*time.Minute - 1},
		"2 min":           {2 * time.Minute, 5*time.Minute - 1},
		"30 min":          {30 * time.Minute, time.Hour - 1},
		"60 min":          {time.Hour, 2*time.Hour - 1},
		"2 h":             {2 * time.Hour, 6*time.Hour - 1},
		"24 h":            {24 * time.Hour, 48*time.Hour - 1},
		"2 days":          {48 * time.Hour, 72*time.Hour - 1},
	} {
		for _, d := range from {
			if got := span(d); got != want {
				t.Errorf("span(%s) = %s, want %s", d, got, want)
			}
		}
	}
}
