package docs

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/quorate/quorate/test/soak/report"
)

// TestSoakPage: docs/reliability.md has a row for each operation and each fault of a soak, in their order, and no other.
func TestSoakPage(t *testing.T) {
	code, err := os.ReadFile("../e2e/soak_do_test.go")
	if err != nil {
		t.Fatal(err)
	}
	page := text(t, "docs/reliability.md")
	for _, table := range []struct{ variable, head string }{
		{"soakOperations", "| operation | what the user does |"}, {"soakFaults", "| fault | what happens | what proves that it bit |"},
	} {
		_, rest, _ := strings.Cut(string(code), "var "+table.variable+" = ")
		list, _, _ := strings.Cut(rest, "\n}\n")
		var want, got []string
		for _, name := range regexp.MustCompile(`(?m)^\t\{([a-zA-Z."-]+), `).FindAllStringSubmatch(list, -1) {
			want = append(want, strings.Replace(strings.Trim(name[1], `"`), "report.Alone", report.Alone, 1))
		}
		_, rest, _ = strings.Cut(page, table.head+"\n")
		rows, _, _ := strings.Cut(rest, "\n\n")
		for _, row := range strings.Split(rows, "\n")[1:] {
			got = append(got, strings.TrimSpace(strings.Split(row, "|")[1]))
		}
		if !slices.Equal(got, want) || len(want) < 8 {
			t.Errorf("docs/reliability.md lists %q, %s are %q", got, table.variable, want)
		}
	}
}
