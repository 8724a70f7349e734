package plan

import (
	"fmt"
	"strings"
	"testing"
)

// TestAssess: one state, what the rules make of each machine and member.
func TestAssess(t *testing.T) {
	rows(t, "assess.txt", func(o Observed, _ []string) []string {
		a := Assess(o)
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
		if none := a.Machine("nobody"); none != (MachineAssessment{}) {
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

// TestAssessAgrees: what Assess calls complete is what Check, which does not know of it, calls whole.
func TestAssessAgrees(t *testing.T) {
	rows(t, "next.txt", func(o Observed, below []string) []string {
		for i, m := range Assess(o).Machines {
			if m.Complete() && !isWhole(o, o.Machines[i]) {
				t.Errorf("%s is complete to the rules, and not whole to Check", m.Name)
			}
			if m.Complete() != (m.Standing == complete) || m.Complete() && m.Why != "" {
				t.Errorf("%s: %+v", m.Name, m)
			}
		}
		return below
	})
}

func word(h Health) string {
	if h == Unknown {
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
