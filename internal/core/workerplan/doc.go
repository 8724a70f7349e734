// Package workerplan decides how the machines of a MachineDeployment are upgraded in place: one step at a time, from one struct of facts,
// with a reason. It knows which machines are behind, how many may be away at once, and that the control plane goes first.
//
// It knows no client, and nothing of what happens on a node.
package workerplan
