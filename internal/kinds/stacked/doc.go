// Package stacked is the kind KubeadmControlPlane: what it has of its own, for the turns that package group takes.
//
// It knows what its spec wants (kind.go) and the cluster's authorities and kubeconfig (secrets.go). It knows kubeadm's files in the
// cluster and whether the first machine has initialised it (look.go, kubeadm.go), and KubeadmConfigs
// (desired.go, adopt.go). It also knows the certificates of API servers (expiry.go), and the conditions that only this kind has. It does
// not know which step comes next, nor why: that is plan's.
package stacked
