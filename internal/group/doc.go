// Package group knows what the controllers of all kinds of groups of machines have in common: whose Machines are, how a
// decision is made, checked and told, which own writes a cache must show before the next one, since when etcd's members
// are as they are, how a survey of them is asked for outside of turns, when certificates expire, and the metrics. What
// the machines of a kind consist of, and how its steps are carried out, is the kind's own: package stacked.
//
// What is kept here between turns is only what cannot be read again.
package group
