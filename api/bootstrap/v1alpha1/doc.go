// Package v1alpha1 holds the kinds EtcdadmConfig and EtcdadmConfigTemplate: how a machine becomes a member of an etcd cluster of
// its own. It knows schemas and defaults, no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=bootstrap.cluster.x-k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group of Cluster API's bootstrap providers, and this version.
var GroupVersion = schema.GroupVersion{Group: "bootstrap.cluster.x-k8s.io", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&EtcdadmConfig{}, &EtcdadmConfigList{},
		&EtcdadmConfigTemplate{}, &EtcdadmConfigTemplateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers this version's kinds.
var AddToScheme = schemeBuilder.AddToScheme
