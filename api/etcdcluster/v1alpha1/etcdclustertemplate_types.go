package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// EtcdClusterTemplateSpec holds the template of an EtcdCluster.
type EtcdClusterTemplateSpec struct {
	// template is the etcd cluster's metadata and spec.
	// +required
	Template EtcdClusterTemplateResource `json:"template,omitempty,omitzero"`
}

// EtcdClusterTemplateResource is the metadata and spec that etcd clusters are made with.
type EtcdClusterTemplateResource struct {
	// metadata are labels and annotations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the etcd cluster's spec, without the number of members and the endpoint.
	// +required
	Spec CommonSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=etcdclustertemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=control-plane-quorate"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// EtcdClusterTemplate is what EtcdClusters are made from.
type EtcdClusterTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the template.
	// +required
	Spec EtcdClusterTemplateSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// EtcdClusterTemplateList is a list of templates.
type EtcdClusterTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the templates.
	Items []EtcdClusterTemplate `json:"items"`
}
