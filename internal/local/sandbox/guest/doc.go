// Package guest is what quorate-node does inside a local machine. It makes the machine's mounts, is its first process,
// supervises containerd and the kubelet, answers a subset of systemctl, carries out the bootstrap data, and lets
// commands of the host in.
//
// It knows one machine, from within, and what the host hands over in a Boot. It knows no other machine, no link
// or address beyond what it is told, and nothing of Cluster API. It imports no Kubernetes libraries: it runs in
// every machine.
package guest
