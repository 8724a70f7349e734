//go:build e2e

package e2e

import (
	"fmt"
	"testing"

	"github.com/quorate/quorate/test/soak/report"
)

// tellSoak judges what the clients of all clusters saw, and writes the report. Each violation is an error, and so is a time without an
// acknowledged write that is too long.
func tellSoak(t *testing.T, folder string, seed uint64, files []string) {
	t.Helper()
	r, err := report.Write(folder, fmt.Sprintf("seed-%d", seed), seed, files)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range r.Figures() {
		t.Logf("FIGURE %s", line)
	}
	if r.Violations > 0 {
		t.Errorf("%d violations: see %s/seed-%d.html", r.Violations, folder, seed)
	}
	for _, p := range r.Pairs {
		if p.Over {
			t.Errorf("while %s met %s, no write was acknowledged for %.1f s, want at most %.1f s", p.Operation, p.Fault, p.Gap, p.Bound)
		}
	}
}
