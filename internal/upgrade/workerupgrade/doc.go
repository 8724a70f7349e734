// Package workerupgrade carries out what workerplan decides: it reads MachineDeployments that are upgraded in place, with their
// MachineSets, Machines and NodeUpgrades, takes one step, and reports in a MachineDeploymentUpgrade. Nothing of Cluster API is patched:
// with the strategy OnDelete Cluster API leaves machines that are behind alone, and a MachineSet whose template has become the wanted one
// is the current one to it.
//
// What happens on a node is package nodeupgrade's.
package workerupgrade
