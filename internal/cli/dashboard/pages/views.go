package pages

import (
	"io"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cli/advice"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/core/history"
	"github.com/quorate/quorate/internal/core/plan"
)

// Rules draws what every rule says of a group.
func Rules(w io.Writer, f Frame, e report.Explanation) error {
	type verdict struct {
		plan.Verdict
		Decides bool
		Says    string
		Meaning string
	}
	page := struct {
		Frame
		report.Explanation
		Rows    []verdict
		Way     way
		Differs bool
	}{Frame: f, Explanation: e}
	says := map[string]string{}
	for _, r := range plan.Rules() {
		says[r.Name] = r.Says
	}
	for _, v := range e.Verdicts {
		row := verdict{Verdict: v, Decides: v.Decided && v.Rule == e.Decision.Rule, Says: says[v.Rule]}
		if v.Decided {
			row.Meaning = advice.Meaning(v.Rule, v.Decision.Reason)
		}
		page.Rows = append(page.Rows, row)
	}
	next := nextOf(e.Decision)
	page.Way = f.wayOf(next)
	page.Differs = e.Reported.Step != "" && (e.Reported.Step != e.Decision.Step.String() || e.Reported.Reason != e.Decision.Reason)
	return draw(w, "rules.html", page, body{Frame: f, Title: e.Cluster + ": rules", Level: report.AsWanted})
}

// nextOf is a decision as a status tells it.
func nextOf(d plan.Decision) report.Next {
	return report.Next{Step: string(d.Step.Verb), Rule: d.Rule, Reason: d.Reason, Message: d.Message}
}

// Plans draws what will happen to each group of a cluster.
func Plans(w io.Writer, f Frame, all []report.Plan) error {
	page := struct {
		Frame
		Plans []planned
	}{Frame: f}
	for _, p := range all {
		page.Plans = append(page.Plans, plannedOf(f, p))
	}
	return draw(w, "plan.html", page, body{Frame: f, Title: f.Name + ": plan", Level: report.AsWanted})
}

// Typed is a change of a control plane's spec as a person typed it in.
type Typed struct {
	Version, Replicas, InPlace string
	// Policies are what can be chosen for InPlace.
	Policies []string
	// Why says why there is no plan; empty: there is, or nothing was typed in.
	Why string
}

// Change draws the form in which a change is typed in, and what the change would do.
func Change(w io.Writer, f Frame, typed Typed, all []report.Plan) error {
	page := struct {
		Frame
		Typed Typed
		Plans []planned
	}{Frame: f, Typed: typed}
	for _, p := range all {
		page.Plans = append(page.Plans, plannedOf(f, p))
	}
	return draw(w, "change.html", page, body{Frame: f, Title: f.Name + ": plan a change", Level: report.AsWanted})
}

// planned is a plan with what is shown beside it.
type planned struct {
	report.Plan
	Steps  []step
	Ending []screen.Line
	Way    way
}

// step is a step of a plan, with where its bar begins and how long it is, in thousandths.
type step struct {
	At, Then, Held string
	Step           string
	Rule, Reason   string
	Message        string
	HeldBy         string
	From, Long     int
}

func plannedOf(f Frame, p report.Plan) planned {
	out := planned{Plan: p, Ending: p.Ending()}
	if !p.Done() {
		out.Way = f.wayOf(nextOf(p.End))
	}
	whole := max(time.Duration(p.Duration), time.Second)
	share := func(d time.Duration) int { return int(min(max(d*1000/whole, 0), 1000)) }
	for i, s := range p.Steps {
		end := time.Duration(p.Duration)
		if i+1 < len(p.Steps) {
			end = time.Duration(p.Steps[i+1].At)
		}
		from := share(time.Duration(s.At))
		out.Steps = append(out.Steps, step{
			At: "+" + s.At.String(), Then: report.StrengthText(s.After), Held: report.HeldText(s), Step: s.Step.String(), Rule: s.Rule,
			Reason: s.Reason, Message: s.Message, HeldBy: s.HeldBy, From: from, Long: max(share(end)-from, 4),
		})
	}
	return out
}

// past is an entry of a history, with what is shown of it.
type past struct {
	history.Entry
	Group string
	// Mark names what it is: step, failed, change, approval or note.
	Mark string
	// What is the step, or what changed, and Why its reason in words.
	What, Why string
	Meaning   string
	// Long is how long the bar is, in thousandths of the longest; 0: it has none.
	Long int
}

// later is when an entry happened last.
func later(e history.Entry) time.Time {
	if e.Last.After(e.Time) {
		return e.Last
	}
	return e.Time
}

func pastOf(e history.Entry, group string) past {
	p := past{Entry: e, Group: group}
	switch {
	case e.Change != nil:
		p.Mark, p.What = "change", report.ChangeText(*e.Change, e.Count)
	case e.Approval != nil && e.Approval.Decision != "":
		p.Mark, p.What = "approval", e.Approval.Decision+" decided by "+e.Approval.By
	case e.Approval != nil && e.Approval.Request != "":
		p.Mark, p.What = "approval", e.Approval.Request+" asked for by "+e.Approval.By
	case e.Approval != nil:
		p.Mark, p.What = "approval", "revision "+e.Approval.Revision+" approved by "+e.Approval.By
	case e.Step == "":
		p.Mark, p.What = "note", e.Note
	default:
		p.Mark, p.What, p.Why, p.Meaning = "step", e.Step, e.Message, advice.Meaning(e.Rule, e.Reason)
		if e.Outcome == history.Failed {
			p.Mark = "failed"
		}
	}
	return p
}

// History draws what was done to a group, the newest first.
func History(w io.Writer, f Frame, h report.History) error {
	page := struct {
		Frame
		report.History
		Rows []past
	}{Frame: f, History: h}
	longest := time.Second
	for _, e := range h.Entries {
		longest = max(longest, e.Took.Duration)
	}
	for _, e := range slices.Backward(h.Entries) {
		p := pastOf(e, h.Group)
		if took := e.Took.Duration; took > 0 {
			p.Long = max(int(took*1000/longest), 4)
		}
		page.Rows = append(page.Rows, p)
	}
	return draw(w, "history.html", page, body{Frame: f, Title: h.Cluster + ": history", Level: report.AsWanted})
}
