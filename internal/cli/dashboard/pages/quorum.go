package pages

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/cli/report"
	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/core/plan"
)

// quorum is etcd as a picture and a table show it.
type quorum struct {
	report.Etcd
	Says    screen.Span
	Members []memberRow
	// Said: the words have what is wrong with it.
	Said bool
	// Slots are the voters, those that are healthy first, at their places in the picture.
	Slots []slot
	// Width is that of the picture, and Line where the majority ends in it.
	Width, Line int
	// Title is what the picture says.
	Title string
}

// memberRow is a member with its role and how it is.
type memberRow struct {
	plan.Member
	Role  string
	State screen.Span
}

// slot is a voter in the picture.
type slot struct {
	X int
	// Kind is good, bad or unknown.
	Kind   string
	Leader bool
	Name   string
}

// slotWidth is the width of a voter in the picture.
const slotWidth = 44

// quorumOf prepares etcd to be shown.
func quorumOf(e report.Etcd) quorum {
	q := quorum{Etcd: e, Says: screen.Span{Text: e.Sentence(), Colour: e.Colour()}, Said: strings.Contains(e.Sentence(), e.Why)}
	states := e.MemberStates()
	for i, m := range e.Members {
		q.Members = append(q.Members, memberRow{m, role(m), states[i]})
	}
	if !e.Known || e.Voters == 0 {
		return q
	}
	for _, m := range q.Members {
		if !m.Learner {
			q.Slots = append(q.Slots, slot{Kind: kindOf(m.State), Leader: m.Leader, Name: report.MemberName(m.Member)})
		}
	}
	slices.SortStableFunc(q.Slots, func(a, b slot) int { return rank(a.Kind) - rank(b.Kind) })
	for i := range q.Slots {
		q.Slots[i].X = i*slotWidth + slotWidth/2
	}
	q.Width, q.Line = len(q.Slots)*slotWidth, e.Majority*slotWidth
	q.Title = fmt.Sprintf("%d of %d voters healthy; %d are needed", e.Healthy, e.Voters, e.Majority)
	return q
}

// role says what a member is to the others.
func role(m plan.Member) string {
	if m.Differs {
		return vote(m) + ", its data differ"
	}
	return vote(m)
}

// vote says whether a member votes, or leads.
func vote(m plan.Member) string {
	switch {
	case m.Placeholder:
		return "placeholder"
	case m.Learner && m.InSync:
		return "learner, in sync"
	case m.Learner:
		return "learner"
	case m.Leader:
		return "leader"
	}
	return "voter"
}

// kindOf is how a member is drawn.
func kindOf(state screen.Span) string {
	switch state.Colour {
	case screen.Good:
		return "good"
	case screen.Bad:
		return "bad"
	}
	return "unknown"
}

// rank orders how members are drawn.
func rank(kind string) int { return slices.Index([]string{"good", "unknown", "bad"}, kind) }

// place finds the member of a machine.
func (q quorum) place(m report.Machine) placed {
	p := placed{Machine: m, Is: m.State()}
	for _, of := range q.Members {
		if of.Machine == m.Name || of.Machine == "" && of.Name != "" && of.Name == m.Node {
			p.Role, p.Health = of.Role, of.State
		}
	}
	return p
}
