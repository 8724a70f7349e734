package report

import (
	"fmt"
	"time"

	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/core/plan"
)

// Progress is one row for the cluster's next step and one for each machine with what it waits for.
func (c Cluster) Progress(now time.Time) []screen.Row {
	rows := []screen.Row{{Key: "cluster " + c.Name, Line: c.nextLine()}}
	machines := c.Machines()
	cells := make([][]screen.Span, 0, len(machines))
	for _, m := range machines {
		cells = append(cells, []screen.Span{{Text: "  " + m.Name}, {Text: dash(m.Domain)}, m.State()})
	}
	for i, l := range screen.Columns(cells) {
		row := screen.Row{Key: "machine " + machines[i].Name, Line: l}
		if machines[i].Waiting != "" && !machines[i].Since.IsZero() {
			row.Aside = Elapsed(now.Sub(machines[i].Since))
		}
		rows = append(rows, row)
	}
	return rows
}

func (c Cluster) nextLine() screen.Line {
	next := c.ControlPlane.Next
	name := screen.Span{Text: c.Name, Colour: screen.Strong}
	idle := c.idle()
	switch {
	case c.Deleting && idle:
		return screen.Line{name, {Text: ": is being deleted", Colour: screen.Doubt}}
	case c.Missing() == "":
		return screen.Line{name, {Text: ": all is as wanted", Colour: screen.Good}}
	case idle && next.Step == string(plan.Nothing):
		return screen.Line{name, {Text: ": the control plane needs no step"}}
	case idle:
		return screen.Line{name, {Text: ": waits for the controllers to see it", Colour: screen.Doubt}}
	}
	if text, known := next.wait(); known {
		return screen.Line{name, {Text: ": " + text, Colour: screen.Doubt}}
	}
	span := next.Span()
	span.Text = shorten(span.Text, longestNext)
	return screen.Line{name, {Text: ": "}, span}
}

// idle reports whether there is no control plane, or no step of it to tell of.
func (c Cluster) idle() bool {
	step := c.ControlPlane.Next.Step
	return c.ControlPlane.Name == "" || step == "" || step == string(plan.Nothing)
}

// wait is the short text about what a step waits for, where the machines' own rows say more.
func (n Next) wait() (text string, known bool) {
	if n.Step != string(plan.Wait) {
		return "", false
	}
	text, known = underWay[n.Reason]
	return text, known
}

// underWay says in short what the step waits for where the machines' own rows say more, by the decision's reason.
var underWay = map[string]string{
	"Initializing":    "the first machine initialises the cluster",
	"Joining":         "machines join",
	"MemberJoining":   "a member joins etcd",
	"MachineDeleting": "machines leave",
	"GroupDeleting":   "all machines leave",
}

// longestNext keeps the line about the next step to what can be read in passing; `quorate status` shows all of it.
const longestNext = 160

func shorten(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	return string(runes[:most-1]) + "…"
}

// Elapsed writes a duration as people say it: 0.4 s, 12 s, 2 min 5 s.
func Elapsed(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Truncate(time.Second).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}
