package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quorate/quorate/internal/cli/screen"
	"github.com/quorate/quorate/internal/core/history"
)

// History is what was done to a control plane or an etcd cluster.
type History struct {
	Cluster string `json:"cluster"`
	// Group is whose history it is: the kind and the name of a control plane or an etcd cluster.
	Group string `json:"group"`
	// Entries are the steps and the changes of the spec, the oldest first.
	Entries []history.Entry `json:"entries"`
}

// HistoryName is the name of the ConfigMap that holds the history of a group of a kind.
func HistoryName(kind, name string) string { return history.Name(kind, name) }

// NewHistory reads what such a ConfigMap holds; nothing: there is none.
func NewHistory(cluster, group string, data map[string]string) History {
	h := History{Cluster: cluster, Group: group, Entries: []history.Entry{}}
	if text, there := data[history.Key]; there {
		h.Entries = history.Decode(text, time.Now()).Entries
	}
	return h
}

// Newest is the history with at most so many entries, the newest; 0: all.
func (h History) Newest(most int) History {
	if over := len(h.Entries) - most; most > 0 && over > 0 {
		h.Entries = slices.Clone(h.Entries[over:])
	}
	return h
}

// Table draws the entries, the newest last, with times as they are in a place.
func (h History) Table(in *time.Location) []screen.Line {
	if len(h.Entries) == 0 {
		return []screen.Line{screen.Text("nothing is recorded of " + h.Group + " yet")}
	}
	rows := [][]screen.Span{heads("TIME", "STEP", "REASON", "RESULT", "TOOK", "WHY")}
	for _, e := range h.Entries {
		rows = append(rows, append([]screen.Span{{Text: e.Time.In(in).Format(time.DateTime)}}, entryCells(e)...))
	}
	return screen.Columns(rows)
}

// entryCells are what follows an entry's time.
func entryCells(e history.Entry) []screen.Span {
	switch {
	case e.Change != nil:
		return []screen.Span{{Text: ChangeText(*e.Change, e.Count), Colour: screen.Doubt}}
	case e.Approval != nil && e.Approval.Decision != "":
		return []screen.Span{{Text: e.Approval.Decision + " decided by " + e.Approval.By, Colour: screen.Doubt}}
	case e.Approval != nil && e.Approval.Request != "":
		return []screen.Span{{Text: e.Approval.Request + " asked for by " + e.Approval.By, Colour: screen.Doubt}}
	case e.Approval != nil:
		return []screen.Span{{Text: "revision " + e.Approval.Revision + " approved by " + e.Approval.By, Colour: screen.Doubt}}
	case e.Step == "":
		return []screen.Span{{Text: e.Note, Colour: screen.Doubt}}
	}
	why, colour := e.Message, screen.Good
	if e.Outcome == history.Failed {
		why, colour = e.Error, screen.Bad
	}
	return []screen.Span{
		{Text: e.Step}, {Text: e.Reason}, {Text: string(e.Outcome) + times(e.Count), Colour: colour},
		{Text: tookText(e)}, {Text: strings.Join(strings.Fields(why), " ")},
	}
}

// times tells how often something happened in a row, if more than once.
func times(count int) string {
	if count < 2 {
		return ""
	}
	return fmt.Sprintf(" %d times", count)
}

// tookText is how long a step took until its effect was seen; "-": that is not known.
func tookText(e history.Entry) string {
	switch took := e.Took.Duration; {
	case took <= 0:
		return "-"
	case took < 100*time.Millisecond:
		return "< 0.1 s"
	default:
		return Elapsed(took)
	}
}

// ChangeText says who changed what, how often in a row.
func ChangeText(c history.Change, count int) string {
	text := "spec changed"
	if c.Created {
		text = "created"
	}
	text += times(count)
	if c.By == "" {
		text += " by somebody who is not known"
	} else {
		text += " by " + c.By
	}
	if c.Operation != "" {
		text += " (" + c.Operation + ")"
	}
	if len(c.Fields) > 0 {
		text += ": " + strings.Join(c.Fields, ", ")
	}
	return text
}
