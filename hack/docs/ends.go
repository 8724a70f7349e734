package main

import (
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/core/plan"
)

// ends says what ends a wait. A person uses one of the choices, commands or fields; each of them is enough.
type ends struct {
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

// byPerson reports whether a person can end the wait.
func (e ends) byPerson() bool { return len(e.Choices)+len(e.Commands)+len(e.Fields) > 0 }

// text says what ends the wait, as a cell of the table: what a person uses first.
func (e ends) text() string {
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
