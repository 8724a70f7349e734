// Package v1beta2 holds the kinds KubeadmControlPlane and KubeadmControlPlaneTemplate in upstream's group and
// version, with upstream's fields inline and Quorate's additions beside them. Manifests written for
// Cluster API's own provider are valid as they are. It knows schemas and
// defaults, no behaviour.
//
// +kubebuilder:object:generate=true
// +groupName=controlplane.cluster.x-k8s.io
package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is upstream's group and version.
var GroupVersion = schema.GroupVersion{Group: "controlplane.cluster.x-k8s.io", Version: "v1beta2"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&KubeadmControlPlane{}, &KubeadmControlPlaneList{},
		&KubeadmControlPlaneTemplate{}, &KubeadmControlPlaneTemplateList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers this version's kinds.
var AddToScheme = schemeBuilder.AddToScheme
