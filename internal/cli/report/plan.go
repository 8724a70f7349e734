package report

import (
	"fmt"
	"slices"
	"time"

	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/core/forecast"
	"github.com/quorate/quorate/internal/core/history"
	"github.com/quorate/quorate/internal/core/plan"
	"github.com/quorate/quorate/internal/core/programs"
)

// Plan is what will happen to one group of machines if nothing goes wrong.
type Plan struct {
	Namespace string `json:"namespace"`
	Cluster   string `json:"cluster"`
	// Group is the kind and the name of a control plane or an etcd cluster.
	Group string `json:"group"`
	// Approval is the revision of the spec that a person must approve before any of it begins that replaces machines or changes them in place;
	// empty: none.
	Approval string `json:"approval,omitempty"`
	// Window says that what is planned is estimated to take longer than the window that is open, or opens next; empty: it fits.
	Window string `json:"window,omitempty"`
	// NotKnown is what this plan takes for granted and cannot see; empty: nothing.
	NotKnown string `json:"notKnown,omitempty"`
	// Refused are flags and feature gates of the spec that programs of the wanted version of Kubernetes do not take, a sentence each; empty:
	// none.
	Refused []string `json:"refused,omitempty"`
	// NotChecked are those of which it is not known whether the programs take them, a sentence each; empty: none.
	NotChecked []string `json:"notChecked,omitempty"`
	// Drain says how the nodes of machines that are changed in place are drained before; empty: no machine is, or somebody else decides that.
	Drain string `json:"drain,omitempty"`
	forecast.Forecast
}

// NewPlan forecasts what happens to a group of a cluster, once it is approved. following are the machines whose metadata follow without a
// step; by what took how long in the past, times are estimated.
func NewPlan(cluster client.ObjectKey, group string, o plan.Observed, following []string, past History) Plan {
	p := Plan{Namespace: cluster.Namespace, Cluster: cluster.Name, Group: group}
	approved := o
	approved.Group.Unapproved = ""
	if p.Forecast = forecast.Of(approved, forecast.TimesOf(history.Durations(past.Entries))); p.changesMachines() {
		p.Approval = o.Group.Unapproved
		p.Window = tooShort(o, time.Duration(p.Duration))
	}
	p.Follow(following)
	return p
}

// tooShort says that changes that take a time do not fit into the window of a group; empty: they do, or there is none.
func tooShort(o plan.Observed, takes time.Duration) string {
	ends, window := o.Now.Add(takes), o.Group.Window
	if window.Closes.IsZero() || !ends.After(window.Closes) {
		return ""
	}
	return fmt.Sprintf("the window of spec.approval closes at %s, and the plan is estimated to end at %s: "+
		"machines whose replacement or update has not begun by then wait for the next window",
		window.Closes.UTC().Format(time.RFC3339), ends.UTC().Format(time.RFC3339))
}

// NoteUpgrader notes that it cannot be seen whether the manager has an upgrader image for a version, if machines are to be changed in
// place by it; empty: it can.
func (p *Plan) NoteUpgrader(version string) {
	if version != "" && p.changesInPlace() {
		p.NotKnown = fmt.Sprintf("whether the manager has an upgrader image for %s: neither its flag --upgrader-image nor its own ConfigMap "+
			"quorate-upgrader-images "+
			"is seen from here. Without one nothing is changed in place (NoUpgraderImage)", version)
	}
}

// NoteDrain notes how nodes are drained, if machines are to be changed in place.
func (p *Plan) NoteDrain(drain string) {
	if p.changesInPlace() {
		p.Drain = drain
	}
}

// changesInPlace reports whether a machine that is there is changed in place.
func (p *Plan) changesInPlace() bool {
	return slices.ContainsFunc(p.Machines, func(m forecast.Machine) bool { return m.Fate == forecast.Update })
}

// NoteRefused notes what programs of the wanted version of Kubernetes do not take of a configuration for kubeadm, or that it is not known.
func (p *Plan) NoteRefused(kubernetes string, spec *bootstrapv1.KubeadmConfigSpec) {
	found := programs.Check(kubernetes, spec)
	p.Refused, p.NotChecked = found.Refused, found.NotKnown
}

// changesMachines: a machine that is there is replaced or changed in place.
func (p Plan) changesMachines() bool {
	return slices.ContainsFunc(p.Machines, func(m forecast.Machine) bool { return m.Fate == forecast.Replace || m.Fate == forecast.Update })
}

// Lines draws what becomes of each machine, the steps in their order, and how it ends.
func (p Plan) Lines() []screen.Line {
	lines := []screen.Line{{{Text: p.Group, Colour: screen.Strong}, {Text: ": " + p.Summary()}}}
	if len(p.Machines) > 0 {
		lines = append(append(lines, screen.Line{}), screen.Columns(p.machineRows())...)
	}
	if len(p.Steps) > 0 {
		lines = append(append(lines, screen.Line{}), screen.Columns(p.stepRows())...)
	}
	return append(append(lines, screen.Line{}), p.Ending()...)
}

// Summary counts what becomes of machines.
func (p Plan) Summary() string {
	counts := map[forecast.Fate]int{}
	for _, m := range p.Machines {
		counts[m.Fate]++
	}
	text := ""
	for _, of := range []struct {
		forecast.Fate
		as string
	}{
		{forecast.Replace, "to replace"}, {forecast.Update, "to change in place"}, {forecast.Remove, "to remove"},
		{forecast.Add, "to add"}, {forecast.Metadata, "to change metadata of"}, {forecast.Keep, "to keep"},
	} {
		if n := counts[of.Fate]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, of.as)
		}
	}
	if text == "" {
		return "no machines"
	}
	return text[2:]
}

// colours are those of fates.
var colours = map[forecast.Fate]screen.Colour{
	forecast.Replace: screen.Bad, forecast.Remove: screen.Bad, forecast.Update: screen.Doubt, forecast.Metadata: screen.Doubt,
	forecast.Add: screen.Good,
}

func (p Plan) machineRows() [][]screen.Span {
	rows := [][]screen.Span{heads("MACHINE", "WHAT", "WHY")}
	for _, m := range p.Machines {
		rows = append(rows, []screen.Span{{Text: m.Name}, {Text: string(m.Fate), Colour: colours[m.Fate]}, {Text: m.Why}})
	}
	return rows
}

func (p Plan) stepRows() [][]screen.Span {
	rows := [][]screen.Span{heads("ABOUT", "STEP", "THEN", "WHY")}
	for _, s := range p.Steps {
		rows = append(rows, []screen.Span{{Text: "+" + s.At.String(), Colour: screen.Faint}, {Text: s.Step.String(), Colour: screen.Strong},
			{Text: StrengthText(s.After)}, {Text: HeldText(s) + s.Message}})
	}
	return rows
}

// HeldText says how long a step was held by the limit of replacements or by windows; empty: it was not.
func HeldText(s forecast.Step) string {
	if s.Held == 0 {
		return ""
	}
	if s.HeldBy == plan.OutsideWindow {
		return "held for " + s.Held.String() + ", until a window of spec.approval opens; "
	}
	return "held for " + s.Held.String() + ", as many as may be in 24 h were replaced; "
}

// StrengthText says how a group stands: "4 machines, 3 voters, 1 may fail".
func StrengthText(s forecast.Strength) string {
	text := count(s.Machines, "machine")
	switch {
	case s.Voters == 0:
		return text
	case s.Spare < 0:
		return text + ", " + count(s.Voters, "voter") + ", no quorum"
	}
	return text + fmt.Sprintf(", %s, %d may fail", count(s.Voters, "voter"), s.Spare)
}

// Ending says how it ends, and how strong the group is meanwhile.
func (p Plan) Ending() []screen.Line {
	var lines []screen.Line
	if len(p.Steps) > 0 {
		lines = append(lines, screen.Text(fmt.Sprintf("%s, about %s; at most %s%s", count(len(p.Steps), "step"), p.Duration,
			count(p.MostMachines, "machine"), p.worst())))
	}
	if p.Approval != "" {
		lines = append(lines, screen.Line{{Text: "approval    "}, {Text: "needed", Colour: screen.Doubt},
			{Text: ": revision " + p.Approval + "; `quorate approve " + p.Cluster + "`"}})
	}
	if p.Window != "" {
		lines = append(lines, screen.Text("window      "+p.Window))
	}
	if p.Drain != "" {
		lines = append(lines, screen.Text("drain       "+p.Drain))
	}
	unknown := p.NotChecked
	if p.NotKnown != "" {
		unknown = append([]string{p.NotKnown}, unknown...)
	}
	lines = append(lines, below("not known", screen.Doubt, unknown)...)
	lines = append(lines, below("refused", screen.Bad, p.Refused)...)
	if p.Done() {
		return append(lines, screen.Line{{Text: "then        "}, {Text: "all is as wanted", Colour: screen.Good}})
	}
	lines = append(lines, screen.Line{{Text: "then        "}, {Text: "it waits", Colour: screen.Doubt},
		{Text: ": " + p.End.Message + " (" + p.End.Reason + ")"}})
	if why := meaning(p.End); why != "" {
		lines = append(lines, screen.Line{{Text: "            " + why, Colour: screen.Faint}})
	}
	return lines
}

// below draws sentences below one another, the first beside their title.
func below(title string, colour screen.Colour, sentences []string) []screen.Line {
	lines := make([]screen.Line, 0, len(sentences))
	for _, sentence := range sentences {
		lines = append(lines, screen.Line{{Text: fmt.Sprintf("%-12s", title), Colour: colour}, {Text: sentence}})
		title = ""
	}
	return lines
}

// worst says what the quorum stands at the worst moment.
func (p Plan) worst() string {
	switch {
	case p.Now.Voters == 0 && !slices.ContainsFunc(p.Steps, func(s forecast.Step) bool { return s.After.Voters > 0 }):
		return ""
	case p.LeastSpare < 0:
		return "; at the worst moment etcd has no quorum"
	}
	return "; at the worst moment " + count(p.LeastSpare, "voter") + " may fail"
}

// meaning explains the reason of a wait.
func meaning(d plan.Decision) string {
	for _, r := range plan.Rules() {
		if r.Name != d.Rule {
			continue
		}
		for _, reason := range r.Gives {
			if reason.Word == d.Reason && reason.Verb == plan.Wait {
				return "rule " + r.Name + ": " + reason.Says
			}
		}
	}
	return ""
}

// Plans draws several, or a line each where brief.
func Plans(all []Plan, brief bool) []screen.Line {
	if brief {
		rows := [][]screen.Span{heads("CLUSTER", "GROUP", "PLAN", "STEPS", "END")}
		for _, p := range all {
			end := "all is as wanted"
			if !p.Done() {
				end = p.End.Reason + ": " + p.End.Message
			}
			rows = append(rows, []screen.Span{{Text: p.Namespace + "/" + p.Cluster}, {Text: p.Group}, {Text: p.Summary()},
				{Text: fmt.Sprint(len(p.Steps))}, {Text: end}})
		}
		return screen.Columns(rows)
	}
	var lines []screen.Line
	for i, p := range all {
		if i > 0 {
			lines = append(lines, screen.Line{})
		}
		lines = append(lines, p.Lines()...)
	}
	return lines
}

// heads are the titles of columns.
func heads(titles ...string) []screen.Span {
	row := make([]screen.Span, 0, len(titles))
	for _, title := range titles {
		row = append(row, screen.Span{Text: title, Colour: screen.Strong})
	}
	return row
}
