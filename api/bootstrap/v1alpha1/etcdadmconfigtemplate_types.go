package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// EtcdadmConfigTemplateSpec holds the template of an EtcdadmConfig.
type EtcdadmConfigTemplateSpec struct {
	// template is the configuration's metadata and spec.
	// +required
	Template EtcdadmConfigTemplateResource `json:"template,omitempty,omitzero"`
}

// EtcdadmConfigTemplateResource is the metadata and spec that configurations are made with.
type EtcdadmConfigTemplateResource struct {
	// metadata are labels and annotations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is how the machines become members.
	// +optional
	Spec EtcdadmConfigSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=etcdadmconfigtemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=bootstrap-quorate"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// EtcdadmConfigTemplate is what EtcdadmConfigs are made from.
type EtcdadmConfigTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the template.
	// +optional
	Spec EtcdadmConfigTemplateSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// EtcdadmConfigTemplateList is a list of templates.
type EtcdadmConfigTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the templates.
	Items []EtcdadmConfigTemplate `json:"items"`
}
