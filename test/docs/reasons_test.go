package docs

import (
	"strings"
	"testing"
)

// TestReasonsExist: each step in a table of `quorate history` has a reason that docs/troubleshooting.md or docs/rules.md explains.
func TestReasonsExist(t *testing.T) {
	known := text(t, "docs/troubleshooting.md") + text(t, "docs/rules.md")
	rows := 0
	for _, page := range pages(t) {
		column, end := -1, -1
		for i, line := range strings.Split(text(t, page), "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "TIME ") {
				column, end = strings.Index(line, "REASON"), strings.Index(line, "RESULT")
				continue
			}
			// A change of the spec has no columns.
			if column < 2 || len(line) < end || !strings.HasPrefix(line, "    20") || line[column-2:column] != "  " {
				continue
			}
			rows++
			if reason := strings.TrimSpace(line[column:end]); !strings.Contains(known, "| "+reason+" |") {
				t.Errorf("%s:%d: no rule gives the reason %s", page, i+1, reason)
			}
		}
	}
	if rows < 2 {
		t.Errorf("%d rows were found", rows)
	}
}
