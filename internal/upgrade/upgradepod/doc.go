// Package upgradepod knows the pod in which a node is upgraded in place: what it consists of, what its status says of each step, and what
// follows from that for the NodeUpgrade. A pod is made or removed; the upgrade waits, is complete or has failed.
//
// It decides from values alone, and has no client and no clock. What the steps do is known to package steps and to the upgrader.
package upgradepod
