// Package forecast says beforehand what happens to a group of control plane machines. That is the steps that the rules of
// internal/core/plan will take, in their order, if nothing goes wrong and no user changes anything meanwhile.
//
// It asks the rules themselves, has each decision checked as everywhere, and lets a step take its effect on the facts that the rules look
// at. Between steps time passes: machines join, are drained and go, updates in place end. What happens by itself is in nature.go; what a
// step does, in effect.go. It has no client and no clock, and changes nothing.
//
// In a run in which nothing goes wrong the steps taken are those that were forecast; random worlds of internal/core/sim are held against
// that.
package forecast
