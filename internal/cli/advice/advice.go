// Package advice has what a person does about a reason, as it is written by hand in advice.yaml: for docs/troubleshooting.md and for pages
// that show a reason. It knows no cluster and reads nothing else.
package advice

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/quorate/quorate/internal/core/plan"
)

// The sections whose reasons a control plane or an etcd cluster has: Waits for what it waits for, and Conditions those of its conditions.
const (
	Waits      = "waits"
	Conditions = "conditions"
)

// Advice is what is written by hand of a reason.
type Advice struct {
	// Means is what it means; empty: what the code says of it.
	Means string `json:"means"`
	// Do is what a person does, or that nothing is to be done.
	Do string `json:"do"`
	// Ends is what ends the wait, for the reasons of the rules.
	Ends Ends `json:"ends"`
}

// Ends says what ends a wait. A person uses one of the choices, commands or fields; each of them is enough.
type Ends struct {
	// Choices are those of `quorate decide`.
	Choices []plan.ChoiceKind `json:"choices"`
	// Commands are others, as a person types them.
	Commands []string `json:"commands"`
	// Fields are those that a person sets, after the kind of their object. Without a kind: of the control plane or the EtcdCluster.
	Fields []string `json:"fields"`
	// Seen is what ends the wait by itself, once Quorate sees it; empty: only a person ends it.
	Seen string `json:"seen"`
	// Open says of a wait for a person how it ends today, where no choice, command or field ends it.
	Open string `json:"open"`
}

// ByPerson reports whether a person can end the wait.
func (e Ends) ByPerson() bool { return len(e.Choices)+len(e.Commands)+len(e.Fields) > 0 }

// OnlyByPerson reports whether nothing but a person ends the wait.
func (e Ends) OnlyByPerson() bool { return e.Seen == "" && (e.ByPerson() || e.Open != "") }

// Text says what ends the wait, as a cell of a table in Markdown: what a person uses first.
func (e Ends) Text() string {
	var ways []string
	for _, c := range e.Choices {
		ways = append(ways, "[`quorate decide NAME "+string(c)+"`](decide.md#"+string(c)+")")
	}
	for _, text := range slices.Concat(e.Commands, e.Fields) {
		ways = append(ways, "`"+text+"`")
	}
	for _, text := range []string{e.Seen, e.Open} {
		if text != "" {
			ways = append(ways, text)
		}
	}
	return strings.Join(ways, "; ")
}

// All are by section and reason.
type All map[string]map[string]Advice

//go:embed advice.yaml
var file []byte

// Read returns all that is written.
func Read() (All, error) {
	var all All
	if err := yaml.UnmarshalStrict(file, &all); err != nil {
		return nil, fmt.Errorf("reading advice.yaml: %w", err)
	}
	return all, nil
}

// once reads the file once. A test keeps it readable.
var once = sync.OnceValue(func() All {
	all, err := Read()
	if err != nil {
		return All{}
	}
	return all
})

// OfWait returns the advice on a reason for which a control plane or an etcd cluster waits; false: there is none.
func OfWait(reason string) (Advice, bool) {
	a, found := once()[Waits][reason]
	return a, found
}

// OfCondition returns what a person does about the reason of a condition; empty: nothing is written of it.
func OfCondition(reason string) string { return once()[Conditions][reason].Do }

// Meaning explains a reason that rules give with a step: the advice's words, or else those of the rules; empty: nothing is said of it.
func Meaning(rule, reason string) string {
	if a, found := OfWait(reason); found && a.Means != "" {
		return a.Means
	}
	text := ""
	for _, r := range plan.Rules() {
		for _, g := range r.Gives {
			if g.Word == reason && (r.Name == rule || text == "") {
				text = g.Says
			}
		}
	}
	return text
}
