// Package plan decides the next safe step for a group of machines that together
// run a control plane, and says why.
//
// It is a function from what was observed to one decision. It reads no clock,
// calls no server and imports no client: whatever a decision may depend on is a
// field of Observed, time included. It knows what machines, members and
// components are and what may be done to them in which order; it does not know
// how any of that is read or carried out.
//
// The caller's loop is
//
//	for {
//		o := observe()               // read everything once
//		d := plan.Next(o)            // decide one step
//		if err := check.Decision(o, d); err != nil {
//			report(err)          // a defect in the rules: touch nothing
//			continue
//		}
//		do(d.Step)                   // safe to repeat; may fail or be cut short
//		report(d)                    // condition, event, metric: all say d.Reason
//	}                                    // and nothing is remembered
//
// A caller that acted must not ask again before it sees its own last write.
//
// # Rules
//
// The rules are an ordered list, the most urgent first; the first that has
// something to say decides. The list is the only place where priority is
// expressed: finishing what was begun comes before beginning anything, and
// keeping the quorum before everything. Waiting is a decision like any other, so
// a rule stops all that stand below it by waiting. Each rule that passes says
// why, with its numbers; Explain returns what all of them said.
//
// # The second key
//
// Package check compares every decision with what must never happen, whatever the
// reason. It uses the types and constants of facts and steps, and nothing of the rules.
//
// # Names of things
//
// A machine is staying or leaving; one that stays is complete (its Node is
// registered, its components are healthy and its member votes), joining, failed,
// late (it should have joined by now), unhealthy, or unknown. A member is a voter
// or a learner; a learner costs no quorum. What is not proven healthy counts as
// failed wherever the quorum is counted.
package plan

//go:generate go run ./rulesdoc ../../../docs/rules.md
