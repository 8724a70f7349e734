// Package group takes the turns of all kinds of groups of machines. It knows whose Machines are, how they are made, adopted,
// removed and kept as wanted, how a decision is made, checked, confirmed, carried out and told, which own writes a cache
// must show before the next one, since when etcd's members are as they are, and how a survey of them is asked for
// outside of turns. What a kind has of its own, it supplies as a Kind (kind.go); package stacked is one. Which step comes next, and why, is
// known to package plan alone.
//
// One turn (controller.go): observe everything once (observe.go), let plan decide one step and check it (decide.go), ask etcd once
// more where the quorum is at stake, carry the step out (do.go, create.go, adopt.go), report (report.go, conditions.go), forget.
// Every other write is in Turn.syncOwned (report.go) or notes something for later: Turn.Annotate.
//
// What is kept here between turns is only what cannot be read again (memory.go).
package group
