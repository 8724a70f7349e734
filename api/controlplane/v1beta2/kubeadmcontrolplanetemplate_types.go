package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// KubeadmControlPlaneTemplateSpec holds the template of a control plane.
type KubeadmControlPlaneTemplateSpec struct {
	// template is the control plane's metadata and spec.
	// +required
	Template KubeadmControlPlaneTemplateResource `json:"template,omitempty,omitzero"`
}

// KubeadmControlPlaneTemplateResource is the metadata and spec that control planes are made with.
//
// +kubebuilder:validation:MinProperties=1
type KubeadmControlPlaneTemplateResource struct {
	// metadata are labels and annotations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the control plane's spec. It cannot be changed: a ClusterClass is given another template instead.
	// +optional
	Spec KubeadmControlPlaneTemplateResourceSpec `json:"spec,omitempty,omitzero"`
}

// KubeadmControlPlaneTemplateResourceSpec is upstream's spec and Quorate's additions. The number of machines, their version
// and their infrastructure are the Cluster's and the ClusterClass's to say.
//
// +kubebuilder:validation:XValidation:rule="!has(self.managedExternalEtcdRef) || !self.?kubeadmConfigSpec.?clusterConfiguration.?etcd.?external.hasValue()",fieldPath=".managedExternalEtcdRef",message="one of managedExternalEtcdRef and kubeadmConfigSpec.clusterConfiguration.etcd.external is accepted, not both"
// +kubebuilder:validation:XValidation:rule="!has(self.powerState) || self.powerState != 'Hibernated' || has(self.backup) && !has(self.managedExternalEtcdRef) && !self.?kubeadmConfigSpec.?clusterConfiguration.?etcd.?external.hasValue()",fieldPath=".powerState",message="Hibernated requires backup, and etcd on the control plane's own machines: the control plane wakes from a backup"
type KubeadmControlPlaneTemplateResourceSpec struct {
	upstream.KubeadmControlPlaneTemplateResourceSpec `json:",inline"`
	Additions                                        `json:",inline"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kubeadmcontrolplanetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=control-plane-quorate"
// +kubebuilder:printcolumn:name="ClusterClass",type="string",JSONPath=`.metadata.ownerReferences[?(@.kind=="ClusterClass")].name`,description="The ClusterClass that owns it"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// KubeadmControlPlaneTemplate is what the control planes of a ClusterClass are made from.
type KubeadmControlPlaneTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the template.
	// +optional
	Spec KubeadmControlPlaneTemplateSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// KubeadmControlPlaneTemplateList is a list of templates.
type KubeadmControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the templates.
	Items []KubeadmControlPlaneTemplate `json:"items"`
}
