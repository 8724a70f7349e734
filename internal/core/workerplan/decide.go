package workerplan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorate/quorate/internal/core/plan"
)

// Verb is a kind of step.
type Verb string

// The verbs. Each is one action that may be repeated without harm.
const (
	// Nothing: all is as wanted, or not ours to change.
	Nothing Verb = "Nothing"
	// Wait: nothing may be done now.
	Wait Verb = "Wait"
	// UpdateInPlace begins the upgrade of Step.Machine.
	UpdateInPlace Verb = "UpdateInPlace"
	// RecordUpdate writes into the Machine Step.Machine which version it runs.
	RecordUpdate Verb = "RecordUpdate"
	// DropUpdate forgets the failed upgrade of Step.Machine, which is not wanted any more.
	DropUpdate Verb = "DropUpdate"
	// Replace deletes Step.Machine, so that Cluster API makes another.
	Replace Verb = "Replace"
	// FollowSet gives the MachineSet Step.Set the wanted version: all of its machines have it.
	FollowSet Verb = "FollowSet"
)

// Step is one action. It is comparable.
type Step struct {
	Verb    Verb
	Machine string
	Set     string
}

// Decision is one step, and why it is the next one.
type Decision struct {
	Step Step
	// Reason is one CamelCase word, Message a sentence with names and numbers.
	Reason, Message string
}

// Next returns the one step to take now.
func Next(o Observed) Decision {
	for _, rule := range []func(Observed) (Decision, bool){
		leave, hold, record, drop, elsewhere, waitForStrategy, waitForControlPlane, waitForFailed, begin, waitForUpgrader, waitForPerson,
		followSet,
	} {
		if d, decided := rule(o); decided {
			return d
		}
	}
	return Decision{Step: Step{Verb: Nothing}, Reason: "AsWanted", Message: fmt.Sprintf("%d machines, all as wanted", len(o.Machines))}
}

// leave: with the policy Never the machines are Cluster API's alone, but for what was begun before.
func leave(o Observed) (Decision, bool) {
	begun := slices.ContainsFunc(o.Machines, func(m Machine) bool { return m.Update != NoUpdate })
	if o.Policy != plan.InPlaceNever || begun {
		return Decision{}, false
	}
	return Decision{Step: Step{Verb: Nothing}, Reason: "NotInPlace", Message: "machines are replaced by Cluster API"}, true
}

func hold(o Observed) (Decision, bool) {
	if o.Held == "" {
		return Decision{}, false
	}
	return wait("Paused", "%s", o.Held)
}

// record says in the objects what was done.
func record(o Observed) (Decision, bool) {
	for _, m := range o.Machines {
		if m.Update == Done && !m.Deleting {
			return do(Step{Verb: RecordUpdate, Machine: m.Name}, "Updated", "%s was upgraded in place, and its Machine does not say so yet", m.Name)
		}
	}
	return Decision{}, false
}

// drop forgets what failed and is not wanted any more.
func drop(o Observed) (Decision, bool) {
	for _, m := range o.Machines {
		if m.Update == Failed && (m.Obsolete || o.Policy == plan.InPlaceNever || !o.behind(m)) {
			return do(Step{Verb: DropUpdate, Machine: m.Name}, "UpdateObsolete", "the upgrade of %s failed, and is not wanted any more: %s", m.Name,
				m.Message)
		}
	}
	return Decision{}, false
}

func elsewhere(o Observed) (Decision, bool) {
	behind := o.Behind()
	if o.Policy != plan.InPlaceExternal || len(behind) == 0 {
		return Decision{}, false
	}
	return wait("UpdatedElsewhere", "somebody else upgrades %s to %s", names(behind), o.Version)
}

// waitForStrategy: Cluster API would replace what is upgraded here.
func waitForStrategy(o Observed) (Decision, bool) {
	if o.OnDelete || o.Policy == plan.InPlaceNever || len(o.Behind()) == 0 {
		return Decision{}, false
	}
	return wait("StrategyReplaces", "spec.rollout.strategy.type must be OnDelete: with any other Cluster API replaces machines that are "+
		"behind, or updates them by a Runtime Extension")
}

func waitForControlPlane(o Observed) (Decision, bool) {
	if o.ControlPlane == "" || len(o.Behind()) == 0 {
		return Decision{}, false
	}
	return wait("ControlPlaneFirst", "%s behind; %s", names(o.Behind()), o.ControlPlane)
}

// waitForFailed begins no other beside one that failed: the rest would become as that one is.
func waitForFailed(o Observed) (Decision, bool) {
	var texts []string
	for _, m := range o.Machines {
		if m.Update == Failed {
			texts = append(texts, m.Name+": "+m.Message)
		}
	}
	if len(texts) == 0 {
		return Decision{}, false
	}
	return wait("UpdateFailed", "%s", strings.Join(texts, "; "))
}

// begin changes the oldest machine that is behind, as far as the others serve.
func begin(o Observed) (Decision, bool) {
	var away []string
	for _, m := range o.Machines {
		if why := m.away(); why != "" {
			away = append(away, m.Name+": "+why)
		}
	}
	for _, m := range o.Behind() {
		why := o.cannotChange(m)
		if m.Update == Underway || m.Deleting || why != "" && o.Policy != plan.InPlacePreferred {
			continue
		}
		// A machine that is away already takes nothing away when it is changed.
		if len(away) >= o.MaxUnavailable && m.away() == "" {
			return wait("MachinesUnavailable", "%s behind, and waits: %d may be away, and are: %s", m.Name, o.MaxUnavailable,
				strings.Join(away, "; "))
		}
		if why != "" {
			return do(Step{Verb: Replace, Machine: m.Name}, "Replacing", "%s cannot be changed in place: %s", m.Name, why)
		}
		if o.NoUpgrader != "" {
			continue
		}
		if m.Unavailable != "" {
			continue // an upgrade needs a node that works; who mends it is not known here
		}
		return do(Step{Verb: UpdateInPlace, Machine: m.Name}, "UpdatingInPlace", "%s runs %s, wanted %s", m.Name, m.Version, o.Version)
	}
	if len(away) > 0 && len(o.Behind()) > 0 {
		return wait("UpdatingInPlace", "%s", strings.Join(away, "; "))
	}
	return Decision{}, false
}

// waitForUpgrader names the machines that no image can upgrade.
func waitForUpgrader(o Observed) (Decision, bool) {
	waiting := o.Upgradable()
	if o.NoUpgrader == "" || len(waiting) == 0 {
		return Decision{}, false
	}
	return wait("NoUpgraderImage", "cannot update %s in place: %s", names(waiting), o.NoUpgrader)
}

// waitForPerson names what the policy Only leaves to a person.
func waitForPerson(o Observed) (Decision, bool) {
	var texts []string
	for _, m := range o.Behind() {
		if why := o.cannotChange(m); why != "" {
			texts = append(texts, m.Name+": "+why)
		}
	}
	if len(texts) == 0 {
		return Decision{}, false
	}
	return wait("CannotUpdateInPlace", "%s; with the policy %s nothing is replaced: change it back, or delete the Machine",
		strings.Join(texts, "; "), o.Policy)
}

// followSet comes last: what a MachineSet makes meanwhile is upgraded like the others.
func followSet(o Observed) (Decision, bool) {
	for _, s := range o.Sets {
		if s.Version == o.Version || s.Differs != "" || o.Policy == plan.InPlaceNever {
			continue
		}
		return do(Step{Verb: FollowSet, Set: s.Name}, "SetFollows", "the machines of MachineSet %s have %s, and its template has %s", s.Name,
			o.Version, s.Version)
	}
	return Decision{}, false
}

// away says why a machine does not serve, or may not at any moment; empty: it does.
func (m Machine) away() string {
	switch {
	case m.Deleting:
		return "it is being deleted"
	case m.Update == Underway:
		return "it is upgraded in place: " + m.Message
	}
	return m.Unavailable
}

// behind reports whether a machine is not as wanted.
func (o Observed) behind(m Machine) bool { return m.Version != o.Version || o.set(m).Differs != "" }

// Behind returns the machines that are not as wanted.
func (o Observed) Behind() []Machine {
	var found []Machine
	for _, m := range o.Machines {
		if o.behind(m) {
			found = append(found, m)
		}
	}
	return found
}

// Upgradable returns the machines that are behind, can be changed in place, and have not begun.
func (o Observed) Upgradable() []Machine {
	return slices.DeleteFunc(o.Behind(), func(m Machine) bool { return m.Update != NoUpdate || m.Deleting || o.cannotChange(m) != "" })
}

// cannotChange says what of a machine that is behind cannot be changed in place; empty: all can.
func (o Observed) cannotChange(m Machine) string {
	if differs := o.set(m).Differs; differs != "" {
		return differs
	}
	return m.Unfit
}

func (o Observed) set(m Machine) Set {
	for _, s := range o.Sets {
		if s.Name == m.Set {
			return s
		}
	}
	return Set{}
}

func names(machines []Machine) string {
	var all []string
	for _, m := range machines {
		all = append(all, m.Name)
	}
	return strings.Join(all, ", ")
}

func wait(reason, format string, args ...any) (Decision, bool) {
	return do(Step{Verb: Wait}, reason, format, args...)
}

func do(step Step, reason, format string, args ...any) (Decision, bool) {
	return Decision{Step: step, Reason: reason, Message: fmt.Sprintf(format, args...)}, true
}
