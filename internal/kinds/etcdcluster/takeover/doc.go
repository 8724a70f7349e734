// Package takeover keeps an EtcdCluster for each EtcdadmCluster, the kind of aws/etcdadm-controller, and hands over to it the Machines and
// secrets that the other controller made. It knows what that controller writes. It does not know how an EtcdCluster is kept, nor who
// else may work on an EtcdadmCluster: an annotation of a person says that the other controller does not.
package takeover
