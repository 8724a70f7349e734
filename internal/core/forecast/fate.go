package forecast

import (
	"slices"

	"github.com/quorate/quorate/internal/core/plan"
)

// Fate is what becomes of a machine.
type Fate string

// The values of Fate.
const (
	// Keep: it stays as it is.
	Keep Fate = "Keep"
	// Metadata: its labels, annotations, timeouts, taints or gates change, without a step.
	Metadata Fate = "Metadata"
	// Update: it is changed in place.
	Update Fate = "Update"
	// Replace: it goes, and another takes its place.
	Replace Fate = "Replace"
	// Remove: it goes, and no other takes its place.
	Remove Fate = "Remove"
	// Add: it will be there.
	Add Fate = "Add"
)

// Machine is what becomes of a machine, and why.
type Machine struct {
	Name   string `json:"name"`
	Fate   Fate   `json:"fate"`
	Domain string `json:"domain,omitempty"`
	// Why is what forces its replacement or its update: the fields that differ; or what else takes it away.
	Why string `json:"why,omitempty"`
}

// Follow notes of which machines that stay as they are the metadata change.
func (f *Forecast) Follow(machines []string) {
	for i := range f.Machines {
		if m := &f.Machines[i]; m.Fate == Keep && slices.Contains(machines, m.Name) {
			m.Fate, m.Why = Metadata, "labels, annotations, timeouts, taints or gates follow without a step"
		}
	}
}

// fates is what becomes of the machines that are there, and of those that come.
func fates(from plan.Observed, steps []Step) []Machine {
	var all []Machine
	for _, m := range from.Machines {
		all = append(all, fateOf(m, steps))
	}
	for i, s := range steps {
		if s.Step.Verb != plan.Create {
			continue
		}
		came := Machine{Name: s.Step.Machine, Fate: Add, Domain: s.Step.Domain, Why: s.Message}
		if deletes(steps[i:], came.Name) == nil {
			all = append(all, came)
		}
	}
	return all
}

// fateOf is what becomes of one machine that is there.
func fateOf(m plan.Machine, steps []Step) Machine {
	is := Machine{Name: m.Name, Domain: m.Domain, Fate: Keep}
	gone := deletes(steps, m.Name)
	switch {
	case m.Deleting && m.Outdated != "", gone != nil && m.Outdated != "":
		is.Fate, is.Why = Replace, m.Outdated
	case gone != nil && gone.Step.Repair:
		is.Fate, is.Why = Replace, m.Marked
	case m.Deleting:
		is.Fate, is.Why = Remove, "it is being deleted"
	case gone != nil:
		is.Fate, is.Why = Remove, gone.Message
	case updates(m, steps):
		is.Fate, is.Why = Update, m.Outdated
	}
	return is
}

// deletes is the step that takes a machine away; nil: none does.
func deletes(steps []Step, machine string) *Step {
	for i := range steps {
		if s := &steps[i]; (s.Step.Verb == plan.Delete || s.Step.Verb == plan.GiveUp) && s.Step.Machine == machine {
			return s
		}
	}
	return nil
}

// updates: a machine is changed in place.
func updates(m plan.Machine, steps []Step) bool {
	if m.Update.State == plan.UpdateUnderway || m.Update.State == plan.UpdateDone {
		return true
	}
	for _, s := range steps {
		if s.Step.Verb == plan.UpdateInPlace && s.Step.Machine == m.Name {
			return true
		}
	}
	return false
}
