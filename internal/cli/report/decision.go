package report

import (
	"fmt"
	"slices"

	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/core/plan"
)

// Decisions is what a person can decide about one group of machines.
type Decisions struct {
	Cluster string `json:"cluster"`
	// Group is the kind and the name of a control plane or an etcd cluster.
	Group  string       `json:"group"`
	Offers []plan.Offer `json:"offers"`
	// Stale are decisions that were taken for other facts: they count for nothing.
	Stale []plan.Choice `json:"stale,omitempty"`
}

// NewDecisions is what a person can decide about a group of a cluster of which that was observed.
func NewDecisions(cluster, group string, o plan.Observed) Decisions {
	d := Decisions{Cluster: cluster, Group: group, Offers: plan.Offers(o)}
	for _, c := range o.Choices {
		if !slices.ContainsFunc(d.Offers, func(f plan.Offer) bool { return f.Chosen && f.Choice == c }) {
			d.Stale = append(d.Stale, c)
		}
	}
	return d
}

// Table draws what can be decided.
func (d Decisions) Table() []screen.Line {
	if len(d.Offers) == 0 && len(d.Stale) == 0 {
		return []screen.Line{{{Text: d.Group + ": "}, {Text: "nothing waits for a decision", Colour: screen.Good}}}
	}
	lines := []screen.Line{screen.Text(d.Group)}
	for _, f := range d.Offers {
		lines = append(lines, Offer(d.Cluster, f)...)
	}
	for _, c := range d.Stale {
		text := fmt.Sprintf("%s %s was decided for other facts, or is done: it counts for nothing", c.Kind, c.Target)
		lines = append(lines, screen.Line{{Text: "void        ", Colour: screen.Doubt}, {Text: text}})
	}
	return lines
}

// Offer draws one choice, with the command that takes it.
func Offer(cluster string, f plan.Offer) []screen.Line {
	lines := []screen.Line{
		{{Text: "waits       ", Colour: screen.Doubt}, {Text: f.Why + " (" + f.Reason + ")"}},
		{{Text: "choice      "}, {Text: fmt.Sprintf("quorate decide %s %s %s", cluster, f.Choice.Kind, f.Name), Colour: screen.Strong}},
		{{Text: "effect      "}, {Text: f.Effect}},
	}
	if f.Against != "" {
		lines = append(lines, screen.Line{{Text: "not yet     ", Colour: screen.Doubt}, {Text: "it " + f.Against}})
	}
	if f.Chosen {
		text := "Quorate does it as soon as nothing is against it"
		lines = append(lines, screen.Line{{Text: "decided     ", Colour: screen.Good}, {Text: text}})
	}
	return lines
}
