package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/cli/screen"
)

// Upgrade is an upgrade in place of the nodes of a control plane, of a MachineDeployment, or of one node.
type Upgrade struct {
	Name string `json:"name"`
	// Of names whose nodes they are: KubeadmControlPlane demo-cp.
	Of string `json:"of,omitempty"`
	// Version of Kubernetes that is wanted.
	Version string `json:"version"`
	// Paused: a person holds it; the node that has begun is finished.
	Paused bool `json:"paused,omitempty"`
	// Nodes are those that have begun, in that order, and then those that have not.
	Nodes []UpgradedNode `json:"nodes"`
}

// UpgradedNode is how far one node is.
type UpgradedNode struct {
	// Name of its NodeUpgrade; empty: it has not begun.
	Name    string `json:"name,omitempty"`
	Machine string `json:"machine"`
	// Completed: it runs what is wanted. Reason is why it does not, in one CamelCase word, and Message in a sentence.
	Completed bool   `json:"completed"`
	Reason    string `json:"reason,omitempty"`
	Message   string `json:"message,omitempty"`
	// Steps are those of the node in their order; of those that have not begun only the name is known.
	Steps []UpgradeStep `json:"steps,omitempty"`
	// Failed is the step that failed; empty: none.
	Failed string `json:"failed,omitempty"`
	// Changed: it failed when the node had the new version already, or may have had it.
	Changed bool `json:"changed,omitempty"`
	// Created is when it began, and Ended when it was completed or failed; zero: not yet.
	Created time.Time `json:"created,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
}

// UpgradeStep is one step on a node.
type UpgradeStep struct {
	Name string `json:"name"`
	// Done: it has ended well. Running: it has begun, at Since.
	Done    bool      `json:"done,omitempty"`
	Running bool      `json:"running,omitempty"`
	Since   time.Time `json:"since,omitzero"`
}

// Done counts the nodes that run what is wanted.
func (u Upgrade) Done() int {
	n := 0
	for _, node := range u.Nodes {
		if node.Completed {
			n++
		}
	}
	return n
}

// HasFailed reports whether a node's upgrade failed.
func (u Upgrade) HasFailed() bool {
	return slices.ContainsFunc(u.Nodes, func(n UpgradedNode) bool { return n.Failed != "" })
}

// Lines are a head and a line a node.
func (u Upgrade) Lines(now time.Time) []screen.Line {
	head := screen.Line{{Text: u.Of, Colour: screen.Strong}, {Text: " to " + u.Version + ": "}}
	count := screen.Span{Text: fmt.Sprintf("%d of %d upgraded", u.Done(), len(u.Nodes)), Colour: screen.Doubt}
	if u.Done() == len(u.Nodes) {
		count.Colour = screen.Good
	}
	head = append(head, count)
	if u.Paused {
		head = append(head, screen.Span{Text: "  paused: no other node begins; `quorate upgrade resume` goes on", Colour: screen.Doubt})
	}
	cells := make([][]screen.Span, 0, len(u.Nodes))
	for _, n := range u.Nodes {
		cells = append(cells, []screen.Span{{Text: "  " + n.Machine}, n.progress(now)})
	}
	return append([]screen.Line{head}, screen.Columns(cells)...)
}

// progress is what the node is at, in a line.
func (n UpgradedNode) progress(now time.Time) screen.Span {
	switch {
	case n.Name == "":
		return screen.Span{Text: "waits for its turn", Colour: screen.Faint}
	case n.Completed:
		return screen.Span{Text: "done in " + Elapsed(n.Ended.Sub(n.Created)), Colour: screen.Good}
	case n.Failed != "":
		return screen.Span{Text: n.Failed + " failed: " + oneLine(n.Message), Colour: screen.Bad}
	}
	return screen.Span{Text: n.At(now), Colour: screen.Doubt}
}

// At says at which of its steps a node is that has begun, and for how long, or what it waits for.
func (n UpgradedNode) At(now time.Time) string {
	at := slices.IndexFunc(n.Steps, func(s UpgradeStep) bool { return s.Running })
	if at < 0 {
		return oneLine(either(n.Message, n.Reason))
	}
	// Several are carried out by one container, and which of them it is at is known when it has ended.
	s, last := n.Steps[at], at
	for last+1 < len(n.Steps) && n.Steps[last+1].Running {
		last++
	}
	text := fmt.Sprintf("%s (%d of %d)", s.Name, at+1, len(n.Steps))
	if last > at {
		text = fmt.Sprintf("%s to %s (%d-%d of %d)", s.Name, n.Steps[last].Name, at+1, last+1, len(n.Steps))
	}
	if !s.Since.IsZero() {
		text += ", " + Elapsed(now.Sub(s.Since))
	}
	return text
}
