package report

import (
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/core/plan"
)

// Explanation is every rule's verdict on what was observed.
type Explanation struct {
	Cluster string `json:"cluster"`
	// Group is what is explained: the kind and the name of a control plane or an etcd cluster.
	Group    string         `json:"group"`
	Decision plan.Decision  `json:"decision"`
	Verdicts []plan.Verdict `json:"verdicts"`
	// Reported is what the controller decided last.
	Reported Next `json:"reported,omitzero"`
	// Observed is what the rules looked at, for bug reports.
	Observed *plan.Observed `json:"observed,omitempty"`
}

// Table draws the verdicts in the rules' order, and the decision below them.
func (e Explanation) Table() []screen.Line {
	rows := [][]screen.Span{heads("RULE", "VERDICT", "WHY")}
	for _, v := range e.Verdicts {
		rows = append(rows, verdictRow(v, v.Rule == e.Decision.Rule))
	}
	lines := append(screen.Columns(rows), screen.Line{},
		screen.Line{{Text: "next        "}, {Text: e.Decision.Step.String(), Colour: screen.Strong}, {Text: ": " + e.Decision.Message}})
	// The controller looks at other moments, and knows since when things are as they are; it may also have found objects
	// that contradict each other, which no rule sees.
	if r := e.Reported; r.Step != "" && (r.Step != e.Decision.Step.String() || r.Reason != e.Decision.Reason) {
		lines = append(lines, screen.Line{{Text: "controller  "}, {Text: r.Step, Colour: screen.Doubt},
			{Text: ": " + r.Message + " (" + r.Reason + ")"}})
	}
	return lines
}

// verdictRow tells the rule that decides from those below it that would have.
func verdictRow(v plan.Verdict, decides bool) []screen.Span {
	switch {
	case v.Decided && decides:
		return []screen.Span{{Text: v.Rule, Colour: screen.Strong}, {Text: "decides", Colour: screen.Good}, {Text: v.Decision.Message}}
	case v.Decided:
		return []screen.Span{{Text: v.Rule}, {Text: "would decide", Colour: screen.Doubt}, {Text: v.Decision.Message}}
	}
	return []screen.Span{{Text: v.Rule}, {Text: "passes", Colour: screen.Faint}, {Text: v.Because, Colour: screen.Faint}}
}
