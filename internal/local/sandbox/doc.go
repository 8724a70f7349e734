// Package sandbox makes local machines. Each is a set of Linux namespaces with a disk of its own under
// the state folder, an address on a bridge, its own cgroups, and quorate-node as first process.
//
// It knows the host's side: folders, links, cgroups, processes, and how a machine is found again after
// this process died or the host was booted. What happens inside a machine is the package guest's. It does
// not know Cluster API, kubeadm or etcd, and decides nothing: callers say what they want of a machine.
package sandbox
