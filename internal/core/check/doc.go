// Package check is the second key of a turn: it compares each decision of package plan with what must never happen to a control plane.
//
// It knows the facts and the steps, as package plan declares them, and nothing of the rules. It counts and compares by itself, so that one
// mistake is not made twice: of package plan it uses types and constants alone, and no function or method. A test keeps that
// (test/limits).
package check
