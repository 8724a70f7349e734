// Package machines is the kind ControlPlane: the machines of a control plane as one entity, for the turns that package group takes.
// What runs on the machines is set up by any bootstrap provider, or by the machines themselves.
//
// It knows what its spec wants (kind.go), bootstrap templates of any provider and the authorities that the kubeadm provider needs
// (bootstrap.go), and who keeps etcd on the machines (etcd.go). It does not know which step comes next, nor why:
// that is plan's.
package machines
