// Package choice knows how the facts are named that a person's decision rests on. It does not know who asks: the rules and the second key
// gather these facts each by itself.
package choice

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"
)

// digestLength is how many hexadecimal digits a digest has.
const digestLength = 16

// Facts are what a decision rests on: what is chosen, and of a member the voters and the machines, of a machine its creation. How healthy
// others are is not among them: the rules and the second key look at that when it is done.
type Facts struct {
	Kind     string
	Group    string
	Target   string
	Name     string // of the target
	Voters   []string
	Machines []string
	// Created is when a machine was created that is the target. It tells it from others that had its name.
	Created time.Time `json:",omitzero"`
}

// Digest names facts, in 16 hexadecimal digits. The order of voters and machines does not matter.
func Digest(f Facts) string {
	f.Voters, f.Machines = slices.Sorted(slices.Values(f.Voters)), slices.Sorted(slices.Values(f.Machines))
	f.Created = f.Created.UTC()
	text, err := json.Marshal(f)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])[:digestLength]
}
