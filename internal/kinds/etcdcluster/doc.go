// Package etcdcluster is the kind EtcdCluster: an etcd cluster on machines of its own, whose members etcdadm makes, for a control
// plane that keeps its data there. It knows the kind's spec and status, what it wants of machines and their EtcdadmConfigs, and the
// order in which it goes with its Cluster. What is the same for all kinds is package group's.
package etcdcluster
