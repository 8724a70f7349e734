// Package v1alpha1 holds the kinds EtcdCluster and EtcdClusterTemplate: an etcd cluster on machines of its own, for a control plane
// whose API servers keep their data there. It knows schemas and defaults, no behaviour. The annotations that Quorate writes on
// etcd clusters and their machines are those of control planes, in package v1beta2 of the group controlplane.cluster.x-k8s.io.
//
// +kubebuilder:object:generate=true
// +groupName=etcdcluster.cluster.x-k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group of etcd clusters, and this version.
var GroupVersion = schema.GroupVersion{Group: "etcdcluster.cluster.x-k8s.io", Version: "v1alpha1"}

// MachineLabel is the label of Machines that are members of an etcd cluster; its value is the EtcdCluster's name. Other providers of etcd
// machines set it too: the local provider makes such machines without containerd and a kubelet, and serves an endpoint for those of them
// that vote.
const MachineLabel = "cluster.x-k8s.io/etcd-cluster"

// Ports of etcd's members.
const (
	// ClientPort is where members serve clients.
	ClientPort = 2379
	// MetricsPort is where members say over plain HTTP whether they are ready, for load balancers.
	MetricsPort = 2381
)

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&EtcdCluster{}, &EtcdClusterList{},
		&EtcdClusterTemplate{}, &EtcdClusterTemplateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers this version's kinds.
var AddToScheme = schemeBuilder.AddToScheme
