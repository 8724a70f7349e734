package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quorate/quorate/internal/core/plan"
)

// TestAssess: one state, what the rules make of each machine and member.
func TestAssess(t *testing.T) {
	eachRow(t, "assess.txt", func(o plan.Observed, _ []string) []string {
		a := plan.Assess(o)
		var lines []string
		for _, m := range a.Machines {
			line := fmt.Sprintf("%-6s %-9s %s", m.Name, m.Standing, word(m.Health))
			if m.Irreplaceable {
				line += ", needed"
			}
			if m.Stays {
				line += ", stays"
			}
			lines = append(lines, because(line, m.Why))
			if a.Machine(m.Name) != m {
				t.Errorf("Machine(%s) is %+v", m.Name, a.Machine(m.Name))
			}
		}
		if none := a.Machine("nobody"); none != (plan.MachineAssessment{}) {
			t.Errorf("Machine(nobody) is %+v", none)
		}
		for _, m := range a.Members {
			if a.Member(m.ID) != m {
				t.Errorf("Member(%s) is %+v", m.ID, a.Member(m.ID))
			}
			lines = append(lines, because(fmt.Sprintf("%-6s %-9s %s", m.ID, word(m.Health), m.Fault), m.Why))
		}
		if a.Remediation != "" {
			lines = append(lines, "marked: "+a.Remediation)
		}
		if a.Settled {
			lines = append(lines, "settled")
		}
		return lines
	})
}

func word(h plan.Health) string {
	if h == plan.Unknown {
		return "Unknown"
	}
	return string(h)
}

func because(line, why string) string {
	if why != "" {
		line += ": " + why
	}
	return strings.TrimSpace(line)
}
