// Package group takes the turns of all kinds of groups of machines. It knows whose turn it is and when the next one comes, how a decision
// is made, checked, confirmed and reported, and what is kept between turns. What a kind has of its own, it supplies as a Kind (kind.go);
// package stacked is one. Which step comes next, and why, is known to package plan alone.
//
// One turn (controller.go) goes through these packages, and enters none of them twice:
//
//	observe  reads Sources, and returns a View; it cannot write
//	plan     decides one step, and checks it
//	act      carries the step out; it alone has a client that writes
//	status   says what of all that is reported; it reads a View, and nothing else
//
// What is kept here between turns is only what cannot be read again (memory.go).
package group
