// Package upgrader carries out on a node the steps of an upgrade in place. Each step is a command of its own. An init container of one
// privileged pod runs those of a stage. The step that interrupts the node, the swap, is done by a service of the node's own, which outlives
// the pod, the kubelet and a restart.
//
// Which steps there are, and how the swap goes on after a cut, is decided in the package steps. This one knows files, processes, kubeadm
// and the node's API server; it knows no management cluster and nothing of Cluster API.
package upgrader
