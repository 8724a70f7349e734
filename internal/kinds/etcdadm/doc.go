// Package etcdadm writes the bootstrap data with which a machine becomes a member of an etcd cluster by etcdadm, and says which
// configurations cannot be carried out.
//
// It knows etcdadm's flags, the files it needs and the one script that calls it. It reads nothing and decides nothing: which machine
// begins and which ones join, and through whom, it is told.
package etcdadm
