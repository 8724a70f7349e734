package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/quorate/quorate/internal/core/choice"
)

// ChoiceKind is what a person decides where no rule can: which is right cannot be seen.
type ChoiceKind string

// The kinds of choices.
const (
	// RemoveVoter: the etcd member Choice.Target, whose machine is not known, leaves etcd although it answers.
	RemoveVoter ChoiceKind = "remove-voter"
	// ForgetMachine: the machine Choice.Target is being deleted, and no rule waits for its infrastructure any more.
	ForgetMachine ChoiceKind = "forget-machine"
)

// ChoiceKinds are all kinds of choices, in the order in which they are listed for people.
func ChoiceKinds() []ChoiceKind { return []ChoiceKind{RemoveVoter, ForgetMachine} }

// Says says what a choice is for, in one sentence.
func (k ChoiceKind) Says() string {
	return map[ChoiceKind]string{
		RemoveVoter:   "remove the etcd member TARGET, which answers and whose machine is not known",
		ForgetMachine: "wait no longer for the infrastructure of the machine TARGET, which is being deleted",
	}[k]
}

// Choice is what a person decided, and for which facts.
type Choice struct {
	Kind ChoiceKind `json:"kind"`
	// Target is the ID of an etcd member, or the name of a machine.
	Target string `json:"target,omitempty"`
	// Digest is that of the facts that the person was shown. For other facts the choice counts for nothing.
	Digest string `json:"digest"`
}

// Offer is a choice that a person has, with all that the person must know before.
type Offer struct {
	Choice Choice `json:"choice"`
	// Name is what people call the target.
	Name string `json:"name,omitempty"`
	// Reason is that of the wait which the choice ends.
	Reason string `json:"reason"`
	// Why is what waits, and Effect what Quorate does once this is chosen.
	Why    string `json:"why"`
	Effect string `json:"effect"`
	// Against says why it is not done yet if it is chosen now; empty: it is done at once.
	Against string `json:"against,omitempty"`
	// Chosen: a person has chosen it.
	Chosen bool `json:"chosen,omitempty"`
}

// Offers returns what a person can choose now.
func Offers(o Observed) []Offer {
	s := newState(o)
	if s.Group.Deleting || s.isNew() || stopWithoutFacts(s).decided {
		return nil
	}
	on := choosing{s}
	var offers []Offer
	if s.Etcd.Ours() {
		for _, e := range s.homeless() {
			offers = append(offers, on.removal(e))
		}
	}
	for _, m := range s.whole.Machines {
		if !m.Off && on.isForgettable(m) {
			offers = append(offers, on.forgetting(m))
		}
	}
	return offers
}

// ChoiceDigest names the facts that a choice rests on.
func ChoiceDigest(o Observed, kind ChoiceKind, target string) string {
	facts := choice.Facts{Kind: string(kind), Group: o.Group.Name, Target: target}
	if kind == ForgetMachine {
		facts.Created = createdAt(o, target)
		return choice.Digest(facts)
	}
	for _, e := range o.Etcd.Members {
		if e.ID == target {
			facts.Name = e.Name
		}
		if !e.Learner {
			facts.Voters = append(facts.Voters, e.ID)
		}
	}
	for _, m := range o.Machines {
		facts.Machines = append(facts.Machines, m.Name)
	}
	return choice.Digest(facts)
}

// createdAt is when a machine was created; zero: there is no such machine.
func createdAt(o Observed, name string) time.Time {
	for _, m := range o.Machines {
		if m.Name == name {
			return m.Created
		}
	}
	return time.Time{}
}

// isMade reports whether a person made a choice for the facts as they are.
func isMade(o Observed, kind ChoiceKind, target string) bool {
	return slices.Contains(o.Choices, Choice{Kind: kind, Target: target, Digest: ChoiceDigest(o, kind, target)})
}

// choosing is the state of a group of which a person decides something.
type choosing struct{ *state }

// removal offers that a voter leaves whose machine is not known.
func (s choosing) removal(e *Member) Offer {
	left := len(s.voters) - 1
	return Offer{
		Choice: Choice{Kind: RemoveVoter, Target: e.ID, Digest: ChoiceDigest(s.Observed, RemoveVoter, e.ID)},
		Name:   cmp.Or(e.Name, e.ID),
		Reason: "MembersUnmatched",
		Why:    fmt.Sprintf("no machine is known for etcd member %s, %s", e.label(), answering(e)),
		Effect: fmt.Sprintf("etcd member %s is removed for good, and %s stay; its etcd ends, and with it an API server beside it. "+
			"Then end its host and delete its Node yourself", e.label(), count(left, "voter")),
		Against: s.cannotSpare(e),
		Chosen:  isMade(s.Observed, RemoveVoter, e.ID),
	}
}

// isForgettable: nothing is left to do on a machine that is being deleted. No member is on it, and nothing on it adds one any more.
func (s choosing) isForgettable(m Machine) bool {
	if !m.isReleased() || s.Etcd.Ours() && !s.Etcd.Known {
		return false
	}
	return s.memberOf(m.Name) == nil && !s.hasTimeToAdd(&machine{Machine: m}) // also where a placeholder keeps it out: that would go
}

// forgetting offers to wait no longer for the infrastructure of a machine.
func (s choosing) forgetting(m Machine) Offer {
	return Offer{
		Choice: Choice{Kind: ForgetMachine, Target: m.Name, Digest: ChoiceDigest(s.whole, ForgetMachine, m.Name)},
		Name:   m.Name,
		Reason: "MachineDeleting",
		Why:    m.Name + " is being deleted, no etcd member is on it, and its Machine is still there",
		Effect: fmt.Sprintf("Quorate goes on as if %s was gone, and creates another machine if one is missing. The Machine stays until its "+
			"provider has deleted the infrastructure. Make sure that the host is off", m.Name),
		Chosen: isMade(s.whole, ForgetMachine, m.Name),
	}
}

// forget takes the machines out of the facts for which the rules wait no longer, as a person decided, or declared them off in a recovery;
// their names stay taken. A group that is
// being deleted waits for all machines, and so does a recovery, and one that nothing has initialised: another machine would do so beside
// it.
func (s choosing) forget() {
	s.whole = s.Observed
	if s.Group.Deleting || s.Recovery.Begun || !s.Group.Initialized {
		return
	}
	s.Machines, s.Cluster.Names = nil, slices.Clone(s.Cluster.Names)
	for _, m := range s.whole.Machines {
		if (m.Off || isMade(s.whole, ForgetMachine, m.Name)) && s.isForgettable(m) {
			s.Cluster.Names = append(s.Cluster.Names, m.Name)
			continue
		}
		s.Machines = append(s.Machines, m)
	}
}

// answering reports whether a member answers.
func answering(e *Member) string {
	switch e.Health {
	case Healthy:
		return "which answers and votes"
	case Unhealthy:
		return "which does not answer, and is removed without a decision if the others can spare it"
	}
	return "which cannot be asked"
}

// isChosen reports whether a person decided that a voter of no known machine leaves.
func (s choosing) isChosen(e *Member) bool {
	return isMade(s.Observed, RemoveVoter, e.ID) && slices.Contains(s.homeless(), e)
}

// stands says by what a decision is done, empty if it is not, and whether it is about the facts as they are.
func (s choosing) stands(c Choice) (done string, stands bool) {
	if c.Kind == ForgetMachine {
		at := slices.IndexFunc(s.whole.Machines, func(m Machine) bool { return m.Name == c.Target })
		if at < 0 {
			return "there is no such machine", false
		}
		// What is known of it may be lost for a while, and no rule forgets it until that is known again.
		return "", s.whole.Machines[at].isReleased() && c.Digest == ChoiceDigest(s.whole, c.Kind, c.Target)
	}
	at := slices.IndexFunc(s.Etcd.Members, func(e Member) bool { return e.ID == c.Target })
	if at < 0 {
		return "etcd has no such member", false
	}
	return "", s.isChosen(&s.Etcd.Members[at])
}

// dropChoices takes away what a person decided and was done, or was decided for other facts.
func dropChoices(s *state) opinion {
	if s.isNew() {
		return pass("nothing is initialised, and there is nothing to decide")
	}
	choices := slices.SortedFunc(slices.Values(s.Choices), func(a, b Choice) int { return cmp.Compare(a.Digest, b.Digest) })
	for _, c := range choices {
		step := Step{Verb: DropChoice, Choice: c.Digest}
		switch done, stands := (choosing{s}).stands(c); {
		case !slices.Contains(ChoiceKinds(), c.Kind):
			return do(step, "DecisionStale", "the decision %s %s is not one that %s knows", c.Kind, c.Target, s.Group.Name)
		case done != "":
			return do(step, "DecisionDone", "the decision %s %s has served: %s", c.Kind, c.Target, done)
		case !stands:
			return do(step, "DecisionStale",
				"the decision %s %s is void: the voters, the machines, or what is known of the target changed since; decide again",
				c.Kind, c.Target)
		}
	}
	return pass("%s of a person to be carried out", count(len(choices), "decision"))
}
