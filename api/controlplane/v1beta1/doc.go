// Package v1beta1 holds the kinds of v1beta2 in upstream's older version, for manifests and tools that still use it. Its
// fields are upstream's; what Quorate adds to v1beta2 lies in an annotation here. It knows schemas, and not how they
// are converted.
//
// +kubebuilder:object:generate=true
// +groupName=controlplane.cluster.x-k8s.io
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is upstream's group and older version.
var GroupVersion = schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&KubeadmControlPlane{}, &KubeadmControlPlaneList{},
		&KubeadmControlPlaneTemplate{}, &KubeadmControlPlaneTemplateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers this version's kinds.
var AddToScheme = schemeBuilder.AddToScheme
