// Package actions knows what a person can do to a cluster from a page: the actions, the commands that do the same, and what a page says
// about them. It compares what a page showed with what holds now. It also knows what is left to the command line. It reads and writes
// nothing.
package actions

import (
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/quorate/quorate/internal/cli/report"
)

// Name names an action in addresses.
type Name string

// The actions.
const (
	Approve  Name = "approve"
	Pause    Name = "pause"
	Resume   Name = "resume"
	Retry    Name = "retry"
	Rollback Name = "rollback"
	Backup   Name = "backup"
)

// Action is something that can be done from a page, as a command does it.
type Action struct {
	Name Name
	// Title names it, and Button is what the button says that does it.
	Title, Button string
	// Does says what it does.
	Does string
	// command is the command, without the name of the cluster.
	command string
}

// All are all actions, in the order in which a page shows them.
func All() []Action {
	return []Action{
		{Approve, "Approve the change", "Approve",
			"Approves the spec as it is now. Then machines are replaced, or changed in place, as the plan says. Another change of the spec needs " +
				"another approval.", "quorate approve"},
		{Pause, "Pause the upgrade in place", "Pause", "No further node begins. The node that has begun is finished.", "quorate upgrade pause"},
		{Resume, "Resume the upgrade in place", "Resume", "The upgrade goes on with the next node.", "quorate upgrade resume"},
		{Retry, "Retry what failed", "Retry", "Each node whose upgrade in place failed goes on from the step that failed.",
			"quorate upgrade retry"},
		{Rollback, "Roll the upgrade back", "Roll back",
			"Gives up an upgrade in place that no node has yet: the version that all machines have is wanted again.", "quorate upgrade rollback"},
		{Backup, "Back up now", "Back up now",
			"The manager takes a backup of etcd beside those of the schedule, stores and verifies it. No machine and no member changes.",
			"quorate backup now"},
	}
}

// Of returns the action of a name; false: there is none.
func Of(name string) (Action, bool) {
	at := slices.IndexFunc(All(), func(a Action) bool { return string(a.Name) == name })
	if at < 0 {
		return Action{}, false
	}
	return All()[at], true
}

// Command is the command that does the same to a cluster. flags name the management cluster; empty: commands find it by themselves.
func (a Action) Command(cluster client.ObjectKey, flags string) string {
	return with(a.command+" "+cluster.String(), flags)
}

// with is a command with flags after it.
func with(command, flags string) string {
	if flags == "" {
		return command
	}
	return command + " " + flags
}

// Right is what a user must be allowed to do with one object.
type Right struct{ Verb, Group, Resource, Namespace, Name string }

// String is the right in words: patch kubeadmcontrolplanes.controlplane.cluster.x-k8s.io demo-cp in namespace default.
func (r Right) String() string {
	return r.Verb + " " + r.Resource + "." + r.Group + " " + r.Name + " in namespace " + r.Namespace
}

// Write is one change of an object.
type Write struct {
	// Object is the kind and the name, and Patch the merge patch, as JSON.
	Object, Patch string
	// Says is what is said once it is done.
	Says string
}

// Offer is an action as it stands for one cluster.
type Offer struct {
	Action
	// Command does the same.
	Command string
	// Writes are what would be written, and Shown what they were made of, a line each: while the lines stay the same, they mean the same.
	Writes []Write
	Shown  []string
	// Why says why the action cannot be done now; empty: it can.
	Why string
	// Missing are the rights that the user lacks.
	Missing []Right
	// Plans are what happens then, or is under way, and Upgrades how upgrades in place go on. PlanWhy says why there is no plan.
	Plans    []report.Plan
	PlanWhy  string
	Upgrades []report.Upgrade
}

// Offered reports whether the action can be done, and the user may.
func (o Offer) Offered() bool { return o.Why == "" && len(o.Missing) == 0 && len(o.Writes) > 0 }

// Outcome is what came of an action.
type Outcome struct {
	// Command does the same.
	Command string
	// Done are what was written, in words.
	Done []string
	// Gone and Come are what differs from what was shown: lines that hold no more, and lines that hold instead.
	Gone, Come []string
	// Missing are the rights that the user lacks.
	Missing []Right
	// Failed is an error; empty: none.
	Failed string
}

// AsAsked reports whether all was done.
func (o Outcome) AsAsked() bool {
	return len(o.Done) > 0 && len(o.Gone) == 0 && len(o.Come) == 0 && len(o.Missing) == 0 && o.Failed == ""
}

// Changed returns which lines that were shown hold no more, and which hold instead.
func Changed(shown, now []string) (gone, come []string) {
	without := func(all, others []string) (rest []string) {
		for _, line := range all {
			if !slices.Contains(others, line) {
				rest = append(rest, line)
			}
		}
		return rest
	}
	return without(shown, now), without(now, shown)
}

// Left is something that takes something away, and so is left to the command line.
type Left struct {
	// Title says what it does, and When when a person does it.
	Title, When string
	// Effect is what happens then, and Against what stands against it now; empty: it is not known here.
	Effect, Against string
	// Commands do it; those that only show come first.
	Commands []Command
}

// Command is a command to copy.
type Command struct {
	Text string
	// Machine is the one that the command replaces, of which a page shows the plan; empty: it is another command.
	Machine string
}

// ReplaceCommand is the command that replaces a machine of a cluster.
func ReplaceCommand(cluster client.ObjectKey, machine, flags string) string {
	return with("quorate replace "+cluster.Namespace+"/"+machine, flags)
}

// LeftOut are what is left to the command line of a cluster: the choices that wait, and what can be done at any time.
func LeftOut(key client.ObjectKey, c report.Cluster, decisions []report.Decisions, flags string) []Left {
	name := key.String()
	var all []Left
	for _, d := range decisions {
		for _, o := range d.Offers {
			l := Left{Title: string(o.Choice.Kind) + " " + o.Name, When: o.Why + " (" + o.Reason + ")", Effect: o.Effect,
				Commands: []Command{{Text: with("quorate decide "+name+" "+string(o.Choice.Kind)+" "+o.Name, flags)}}}
			if o.Against != "" {
				l.Against = "it " + o.Against
			}
			if o.Chosen {
				l.Against = strings.TrimSuffix("it is decided already; "+l.Against, "; ")
			}
			all = append(all, l)
		}
	}
	replace := Left{Title: "Replace a machine",
		When: "a machine is to be made again, a new one first. The command shows the plan, and asks. To delete the Machine would ask no rule."}
	groups := [][]report.Machine{c.ControlPlane.Machines}
	for _, e := range c.EtcdClusters {
		groups = append(groups, e.Machines)
	}
	for _, machines := range groups {
		for _, m := range machines {
			replace.Commands = append(replace.Commands, Command{ReplaceCommand(key, m.Name, flags), m.Name})
		}
	}
	if len(replace.Commands) > 0 {
		all = append(all, replace)
	}
	return append(all,
		Left{Title: "Delete a backup", When: "a backup is needed no more. The newest verified one is deleted only with --yes.",
			Commands: []Command{{Text: with("quorate backup list "+name, flags)}, {Text: with("quorate backup delete "+name+" BACKUP", flags)}}},
		Left{Title: "Recover the control plane",
			When: "etcd has lost its quorum for good, or all machines are gone. Writes since the backup, or on other members, are lost. " +
				"The command shows from what it would recover, and asks.",
			Commands: []Command{{Text: with("quorate recover "+name, flags)}}})
}
