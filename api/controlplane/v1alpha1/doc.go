// Package v1alpha1 holds the kinds ControlPlane and ControlPlaneTemplate: the machines of a control plane as one entity, for
// any bootstrap provider and any infrastructure. It knows schemas and defaults, no behaviour. The annotations that Quorate
// writes on control planes and their machines are those of package v1beta2, for all kinds.
//
// +kubebuilder:object:generate=true
// +groupName=controlplane.cluster.x-k8s.io
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group of Cluster API's control planes, and this version.
var GroupVersion = schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&ControlPlane{}, &ControlPlaneList{},
		&ControlPlaneTemplate{}, &ControlPlaneTemplateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers this version's kinds.
var AddToScheme = schemeBuilder.AddToScheme
