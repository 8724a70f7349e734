package machine

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/local/sandbox"
)

// TestLimitsAreListed where a machine has some, and nowhere else.
func TestLimitsAreListed(t *testing.T) {
	table := func(limits ...sandbox.Resources) string {
		var list []sandbox.Status
		for _, r := range limits {
			list = append(list, sandbox.Status{Spec: sandbox.Spec{Name: "one", Address: netip.MustParseAddr("172.30.1.1"), Resources: r},
				State: sandbox.Stopped})
		}
		var text []string
		for _, line := range machineTable(list) {
			var words []string
			for _, span := range line {
				words = append(words, strings.TrimSpace(span.Text))
			}
			text = append(text, strings.Join(words, "|"))
		}
		return strings.Join(text, "\n")
	}
	if got := table(sandbox.Resources{}); strings.Contains(got, "LIMITS") || !strings.Contains(got, "STATE") {
		t.Errorf("no machine has limits:\n%s", got)
	}
	got := table(sandbox.Resources{MilliCPU: 500, Memory: 1 << 30}, sandbox.Resources{}, sandbox.Resources{Memory: 768 << 20},
		sandbox.Resources{MilliCPU: 2000})
	lines := strings.Split(got, "\n")
	for i, want := range []string{"LIMITS", "cpu 500m, memory 1Gi", "-", "memory 768Mi", "cpu 2"} {
		if i >= len(lines) || !strings.HasSuffix(strings.TrimRight(lines[i], "|"), "|"+want) {
			t.Errorf("line %d has not %q:\n%s", i, want, got)
		}
	}
}
