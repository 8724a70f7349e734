package plan

import (
	"fmt"
	"slices"
)

// A rule looks at the state and either decides or passes, saying why.
type rule struct {
	// name is what people and metrics call it.
	name string
	// says is what it is for, in one or two sentences. docs/rules.md is made of it.
	says string
	// gives are the reasons that its decisions can have.
	gives  []Reason
	decide func(*state) opinion
}

// opinion is what a rule has to say: a decision, or why it has none.
type opinion struct {
	decided  bool
	decision Decision
	because  string
}

// ChoreReason stands in a rule's reasons for the chore's own: kinds name their chores, and why each is due.
const ChoreReason = "Chore"

// Reason is one CamelCase word that decisions give, with the verb it comes with.
type Reason struct {
	Word string
	Verb Verb
	// Says explains the word.
	Says string
}

// Rule describes one rule to people.
type Rule struct {
	Name  string
	Says  string
	Gives []Reason
}

// Rules describes the rules in their order, the most urgent first.
func Rules() []Rule {
	described := make([]Rule, 0, len(rules))
	for _, r := range rules {
		described = append(described, Rule{Name: r.name, Says: r.says, Gives: r.gives})
	}
	return described
}

// Next returns the one step to take now: what the first rule says that has
// something to say. The last rule always has.
func Next(o Observed) Decision {
	return newState(o).next()
}

// Judge returns what Assess and Next do, and looks at what was observed once.
func Judge(o Observed) (Assessment, Decision) {
	s := newState(o)
	return s.assess(o), s.next()
}

// next returns the one step to take now.
func (s *state) next() Decision {
	var by rule
	var said opinion
	for _, by = range rules {
		if said = by.decide(s); said.decided {
			break
		}
	}
	return s.inactive(s.stamp(by, said.decision))
}

// inactive tells the step of an inactive group instead of taking it. The first rule is the one that holds.
func (s *state) inactive(d Decision) Decision {
	if !s.Group.Inactive || s.Group.Deleting || !d.Step.Acts() {
		return d
	}
	return s.stamp(rules[0], wait("Inactive", "%s is inactive; the next step would be %s (%s): %s", s.Group.Name, d.Step, d.Reason,
		d.Message).decision)
}

// Explain returns what every rule says, in their order. The first that decided
// is what Next returns; those after it say what they would do if it had not.
func Explain(o Observed) []Verdict {
	s := newState(o)
	verdicts := make([]Verdict, 0, len(rules))
	for _, r := range rules {
		said := r.decide(s)
		v := Verdict{Rule: r.name, Decided: said.decided, Because: said.because}
		if said.decided {
			v.Decision = s.stamp(r, said.decision)
		}
		verdicts = append(verdicts, v)
	}
	first := slices.IndexFunc(verdicts, func(v Verdict) bool { return v.Decided })
	if d := verdicts[first].Decision; s.inactive(d) != d {
		verdicts[0] = Verdict{Rule: rules[0].name, Decided: true, Decision: s.inactive(d)}
	}
	return verdicts
}

// stamp adds to a decision what is the same for all rules.
func (s *state) stamp(r rule, d Decision) Decision {
	d.Rule = r.name
	if d.Step.Verb == Wait || d.Step.Verb == Nothing {
		d.Again = s.again()
	}
	return d
}

func pass(format string, args ...any) opinion {
	return opinion{because: fmt.Sprintf(format, args...)}
}

func wait(reason, format string, args ...any) opinion {
	return do(Step{Verb: Wait}, reason, format, args...)
}

func do(step Step, reason, format string, args ...any) opinion {
	return opinion{decided: true, decision: Decision{Step: step, Reason: reason, Message: fmt.Sprintf(format, args...)}}
}
