package report

import "fmt"

// Figures returns the report as lines for a log: sums, pairs and violations.
func (r Report) Figures() []string {
	lines := []string{fmt.Sprintf("seed %d: %d clusters, %.2f h, %d rounds, %d pairs met; %d operations of clients judged,"+
		" %d writes acknowledged, %d unknown; %d violations, %d acknowledged writes lost", r.Seed, len(r.Clusters), r.Hours, r.Rounds,
		len(r.Pairs), r.Operations, r.Acknowledged, r.Unknown, r.Violations, r.Lost)}
	for _, p := range r.Pairs {
		over := ""
		if p.Over {
			over = fmt.Sprintf(", above %.1f s", p.Bound)
		}
		lines = append(lines, fmt.Sprintf("%s met %s %d times: longest gap %.1f s%s, as wanted after %.1f s", p.Operation, p.Fault, p.Met, p.Gap,
			over, p.Settled))
	}
	for _, c := range r.Clusters {
		for _, u := range c.Manager {
			lines = append(lines, fmt.Sprintf("%s: %s of the management plane's process in %.2f h: %d at first, %d in the end, %d at most", c.Name,
				u.Name, u.Hours, u.First, u.Last, u.Most))
		}
		for _, round := range c.Rounds {
			if !round.Met && round.Fault != "" {
				lines = append(lines, fmt.Sprintf("%s, round %d: %s and %s did not meet", c.Name, round.Number, round.Operation, round.Fault))
			}
		}
		for _, v := range c.Verdict.Violations {
			lines = append(lines, fmt.Sprintf("%s, at %.1f s: %s: %s", c.Name, seconds(v.At), v.Rule, v.Text))
		}
	}
	return lines
}
