// Package stacked is the controller of the kind KubeadmControlPlane: a thin
// shell around the decisions of package plan.
//
// It knows how the facts of a control plane are read (look.go and observe.go; scene.go holds them), how one step
// is carried out (do.go and create.go) and how both are told to people (report.go and conditions.go). It does
// not know which step comes next, nor why: that is plan's. It knows no etcd
// protocol, no certificates and no connections either; it asks the packages
// etcd, certs and workload.
//
// One turn: observe everything once, let plan decide one step, let plan check
// it, do it, report, forget. What is kept between turns is only what cannot be
// read again: since when a member is as it is, open clients, when etcd was
// asked last, and the own writes that the cache has not shown yet.
package stacked
