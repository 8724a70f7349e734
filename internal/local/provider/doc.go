// Package provider is the local infrastructure provider: it makes LocalClusters and LocalMachines real on this host, after
// Cluster API's contracts for infrastructure clusters and machines.
//
// It knows the kinds, which address belongs to whom, when a machine is made, told to bootstrap, drained and
// deleted, and what to report in conditions. How a machine is made is the package sandbox's, how connections reach
// API servers is the package balancer's. It does not know kubeadm, etcd or why a machine is wanted.
//
// What it needs to remember lies in the objects, in the machines' own records and in the endpoints' files, so that the
// process may die at any moment and the next one goes on.
package provider
