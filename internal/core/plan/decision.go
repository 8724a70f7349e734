package plan

import (
	"fmt"
	"time"
)

// Verb is a kind of step.
type Verb string

// The verbs. Each is one action that may be repeated without harm.
const (
	// Nothing: all is as wanted.
	Nothing Verb = "Nothing"
	// Wait: nothing may be done now; the decision says why.
	Wait Verb = "Wait"
	// Write Step.Chore: make it, renew it or bring it up to date.
	Write Verb = "Write"
	// Create Step.Machine in Step.Domain; the first of all initialises the cluster.
	Create Verb = "Create"
	// StartBootstrap of Step.Machine, which was made ahead and held back.
	StartBootstrap Verb = "StartBootstrap"
	// Adopt Step.Machine, which has no controller: the group is it from then on.
	Adopt Verb = "Adopt"
	// Delete Step.Machine; its hook holds it until its member is gone.
	Delete Verb = "Delete"
	// MoveLeader to the member Step.Member.
	MoveLeader Verb = "MoveLeader"
	// PromoteMember makes the learner Step.Member a voter.
	PromoteMember Verb = "PromoteMember"
	// AddPlaceholder adds a learner to etcd that no process ever starts, so that Step.Machine, which goes, cannot join any more. RemoveMember
	// takes it away.
	AddPlaceholder Verb = "AddPlaceholder"
	// RemoveMember Step.Member from the quorum.
	RemoveMember Verb = "RemoveMember"
	// EnableDowngrade has etcd lower the version of its data to the minor version Step.Version. No member can join meanwhile.
	EnableDowngrade Verb = "EnableDowngrade"
	// CancelDowngrade ends that: members can join.
	CancelDowngrade Verb = "CancelDowngrade"
	// Compact drops what was overwritten before Step.Revision of etcd. Defragment has Step.Member give back the space that its data do not
	// need, and Disarm ends the alarm NOSPACE of all members.
	Compact    Verb = "Compact"
	Defragment Verb = "Defragment"
	Disarm     Verb = "Disarm"
	// UpdateInPlace changes Step.Machine into what is wanted, without replacing it: it begins an update, which goes on by itself.
	UpdateInPlace Verb = "UpdateInPlace"
	// RecordUpdate writes into the objects of Step.Machine what its update made of it: what the update was for, which need not be wanted any
	// more.
	RecordUpdate Verb = "RecordUpdate"
	// DropUpdate forgets the failed update of Step.Machine, which is not wanted any more.
	DropUpdate Verb = "DropUpdate"
	// RequestBackup notes that a verified backup is needed now: it is taken at once, by somebody else.
	RequestBackup Verb = "RequestBackup"
	// DropChoice forgets the decision Step.Choice of a person, which was done, or was taken for other facts.
	DropChoice Verb = "DropChoice"
	// ReleaseHook lets the Machine Step.Machine go.
	ReleaseHook Verb = "ReleaseHook"
	// BeginRecovery notes that a recovery by a seed began, and EndRecovery that the control plane serves from the seed.
	BeginRecovery Verb = "BeginRecovery"
	EndRecovery   Verb = "EndRecovery"
	// GiveUp deletes Step.Machine at once, with its infrastructure: without a drain, without a hook, and without removing its member.
	GiveUp Verb = "GiveUp"
	// BeginHibernation notes since when the group is on its way into hibernation, and scales its workers to 0. What they were is kept.
	BeginHibernation Verb = "BeginHibernation"
	// Hibernate notes the verified backup from which the group wakes. From then on its machines go.
	Hibernate Verb = "Hibernate"
	// Wake asks for the recovery of a hibernated group from that backup.
	Wake Verb = "Wake"
	// EndHibernation scales the workers to what they were, and forgets the hibernation.
	EndHibernation Verb = "EndHibernation"
	// Finish lets the group itself go: all its machines are gone.
	Finish Verb = "Finish"
)

// Step is one action. It is comparable, and names all that it acts on.
type Step struct {
	Verb    Verb   `json:"verb"`
	Machine string `json:"machine,omitempty"`
	Member  string `json:"member,omitempty"` // ID in hexadecimal
	Chore   string `json:"chore,omitempty"`  // its name
	Domain  string `json:"domain,omitempty"`
	// Version is the minor version of etcd to which a downgrade is enabled, such as 3.5.
	Version string `json:"version,omitempty"`
	// Revision is the one to which etcd is compacted.
	Revision int64 `json:"revision,omitempty"`
	// Choice is the digest of a person's decision.
	Choice string `json:"choice,omitempty"`
	// Init: the created machine initialises the cluster; otherwise it joins.
	Init bool `json:"init,omitempty"`
	// Seed: the created machine restores the seed of the group's recovery before it initialises the cluster.
	Seed bool `json:"seed,omitempty"`
	// Hold: the created machine is made ahead, and its bootstrap is held back until StartBootstrap.
	Hold bool `json:"hold,omitempty"`
	// First: no machine of the group is as wanted yet, so that what the whole cluster has once is updated with Step.Machine.
	First bool `json:"first,omitempty"`
	// Number is the number in the created machine's name.
	Number int `json:"number,omitempty"`
	// Repair: the deleted machine is replaced because it is broken, and Retry is how
	// many were replaced before it in short order.
	Repair bool `json:"repair,omitempty"`
	Retry  int  `json:"retry,omitempty"`
	// Counts: the step is noted, before it is taken, as one of Policy.MaxReplacements.
	Counts bool `json:"counts,omitempty"`
}

// Decision is one step, and why it is the next one.
type Decision struct {
	Step Step `json:"step"`
	// Rule is the name of the rule that decided.
	Rule string `json:"rule"`
	// Reason is one CamelCase word, for conditions, events and metric labels.
	Reason string `json:"reason"`
	// Message says the same to a person, with names and numbers.
	Message string `json:"message"`
	// Again is when to look again although nothing was reported; 0: only when something changes.
	Again time.Duration `json:"again,omitempty"`
}

// Verdict is what one rule said.
type Verdict struct {
	Rule string `json:"rule"`
	// Decided: the rule had something to say; the first that has decides.
	Decided bool `json:"decided"`
	// Decision is what it said, if Decided.
	Decision Decision `json:"decision,omitzero"`
	// Because is why the rule passed, with its numbers, if not Decided.
	Because string `json:"because,omitempty"`
}

// Acts reports whether the step writes anything.
func (s Step) Acts() bool { return s.Verb != Nothing && s.Verb != Wait }

// ChangesQuorum reports whether the step takes a member, or what it stands on,
// away, for good or for a while, gives a member another role, or changes who can join.
func (s Step) ChangesQuorum() bool {
	switch s.Verb {
	case MoveLeader, PromoteMember, AddPlaceholder, RemoveMember, EnableDowngrade, CancelDowngrade, Defragment, Delete, UpdateInPlace:
		return true
	}
	return false
}

// Action is what is done, in one word, for metrics: Create, WriteKubeconfig.
func (s Step) Action() string { return string(s.Verb) + s.Chore }

// String writes the step in a few words: "WriteKubeconfig", "Create demo-cp-2 in a",
// "RemoveMember 1a2b (demo-cp-3)".
func (s Step) String() string {
	text := s.Action()
	switch {
	case s.Member != "" && s.Machine != "":
		text += " " + s.Member + " (" + s.Machine + ")"
	case s.Member != "":
		text += " " + s.Member
	case s.Machine != "":
		text += " " + s.Machine
	}
	if s.Choice != "" {
		text += " " + s.Choice
	}
	if s.Version != "" {
		text += " to " + s.Version
	}
	if s.Revision != 0 {
		text += fmt.Sprintf(" to revision %d", s.Revision)
	}
	if s.Domain != "" {
		text += " in " + s.Domain
	}
	if s.Init || s.First {
		text += ", the first"
	}
	if s.Seed {
		text += ", from the seed"
	}
	if s.Hold {
		text += ", ahead"
	}
	if s.Counts {
		text += ", counted"
	}
	return text
}

// String writes the step and why it is the next one.
func (d Decision) String() string {
	return d.Step.String() + " (" + d.Reason + ": " + d.Message + ")"
}
