// Package v1alpha1 holds the kinds of the local infrastructure provider, whose
// machines are Linux namespaces on one host: LocalCluster, LocalMachine and
// their templates, after Cluster API's v1beta2 contracts for infrastructure
// clusters and machines. It knows schemas, no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=infrastructure.cluster.x-k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the local provider.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&LocalCluster{}, &LocalClusterList{}, &LocalClusterTemplate{}, &LocalClusterTemplateList{},
		&LocalMachine{}, &LocalMachineList{}, &LocalMachineTemplate{}, &LocalMachineTemplateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers this version's kinds.
var AddToScheme = schemeBuilder.AddToScheme
