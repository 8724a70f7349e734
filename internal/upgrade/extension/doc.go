// Package extension is Quorate as a Runtime Extension of Cluster API. It serves the hooks CanUpdateMachine, CanUpdateMachineSet and
// UpdateMachine over TLS, so that Cluster API's own controllers upgrade nodes in place by Quorate's NodeUpgrades.
//
// It knows how requests are read and answered, and which objects are read, made and removed for an update. What is answered package inplace
// decides; what happens on a node is the NodeUpgrades' affair. It trusts no request: what a node becomes is what its Machine says in the
// API server.
package extension
