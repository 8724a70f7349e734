// Package v1beta1 holds the kind EtcdadmCluster as the manifests of aws/etcdadm-controller have it, for those who come from there.
// Quorate keeps an EtcdCluster for each. The package knows schemas, and not how they are converted.
//
// +kubebuilder:object:generate=true
// +groupName=etcdcluster.cluster.x-k8s.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group of etcd clusters, and the other provider's version.
var GroupVersion = schema.GroupVersion{Group: "etcdcluster.cluster.x-k8s.io", Version: "v1beta1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &EtcdadmCluster{}, &EtcdadmClusterList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers this version's kinds.
var AddToScheme = schemeBuilder.AddToScheme
