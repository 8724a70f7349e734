package pages

import (
	"io"
	"time"

	"github.com/quorate/quorate/internal/cli/dashboard/actions"
	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
)

// Form has the fields by which the server knows a form again that it made.
type Form struct {
	// ID names the form, Issued is when it was shown, Shown what its page showed, and Proof shows that the server made it.
	ID, Issued, Shown, Proof string
}

// Actions draws how all actions stand for a cluster, and what is left to the command line.
func Actions(w io.Writer, f Frame, all []actions.Offer, left []actions.Left) error {
	return draw(w, "actions.html", struct {
		Frame
		Offers []actions.Offer
		Left   []actions.Left
	}{f, all, left}, body{Frame: f, Title: f.Name + ": actions", Level: report.AsWanted})
}

// Action draws what one action does to a cluster, and the form by which a person confirms it.
func Action(w io.Writer, f Frame, o actions.Offer, form Form) error {
	page := struct {
		Frame
		actions.Offer
		Form     Form
		Plans    []planned
		Upgrades [][]screen.Line
	}{Frame: f, Offer: o, Form: form}
	for _, p := range o.Plans {
		page.Plans = append(page.Plans, plannedOf(f, p))
	}
	for _, u := range o.Upgrades {
		page.Upgrades = append(page.Upgrades, u.Lines(f.Now))
	}
	return draw(w, "action.html", page, body{Frame: f, Title: f.Name + ": " + o.Title, Level: report.AsWanted})
}

// Replacement draws what the replacement of a machine would do, and the command that does it. why says why there is no plan.
func Replacement(w io.Writer, f Frame, machine, do string, p report.Plan, why string) error {
	page := struct {
		Frame
		Machine, Do, Why string
		Plans            []planned
	}{Frame: f, Machine: machine, Do: do, Why: why}
	if why == "" {
		page.Plans = []planned{plannedOf(f, p)}
	}
	return draw(w, "replacement.html", page, body{Frame: f, Title: f.Name + ": replace " + machine, Level: report.AsWanted})
}

// Outcome draws what came of an action that a person confirmed at a time.
func Outcome(w io.Writer, f Frame, of actions.Action, sent time.Time, o actions.Outcome) error {
	return draw(w, "outcome.html", struct {
		Frame
		Action actions.Action
		Sent   time.Time
		actions.Outcome
	}{f, of, sent, o}, body{Frame: f, Title: f.Name + ": " + of.Title, Level: report.AsWanted})
}

// Refused draws why a form was not obeyed.
func Refused(w io.Writer, f Frame, of actions.Action, why string) error {
	return Outcome(w, f, of, time.Time{}, actions.Outcome{Failed: why})
}
