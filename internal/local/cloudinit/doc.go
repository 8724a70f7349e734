// Package cloudinit reads bootstrap data in cloud-config form, as Cluster API's kubeadm bootstrap provider writes it,
// and carries it out on the machine it runs on.
//
// It knows which directives there are and which of them a machine made of namespaces can carry out. What it cannot
// is an error that names the directive, never something that is skipped. It does not know kubeadm.
package cloudinit
