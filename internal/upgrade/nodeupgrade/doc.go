// Package nodeupgrade carries NodeUpgrades out: it makes the pod that upgrades a node in the managed cluster, follows it, and reports. It
// knows how both clusters are read and written, when the MachineHealthCheck is kept from a Machine, and that of the control plane nodes of
// a cluster one is upgraded at a time. What follows from what is seen is decided by package upgradepod.
package nodeupgrade
