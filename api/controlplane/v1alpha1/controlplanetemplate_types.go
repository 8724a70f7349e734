package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ControlPlaneTemplateSpec holds the template of a control plane.
type ControlPlaneTemplateSpec struct {
	// template is the control plane's metadata and spec.
	// +required
	Template ControlPlaneTemplateResource `json:"template,omitempty,omitzero"`
}

// ControlPlaneTemplateResource is the metadata and spec that control planes are made with.
//
// +kubebuilder:validation:MinProperties=1
type ControlPlaneTemplateResource struct {
	// metadata are labels and annotations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the control plane's spec. It cannot be changed: a ClusterClass is given another template instead.
	// +optional
	Spec ControlPlaneTemplateResourceSpec `json:"spec,omitempty,omitzero"`
}

// ControlPlaneTemplateResourceSpec is a control plane's spec without what the Cluster and the ClusterClass say: the number of
// machines, their version, readiness gates and template of infrastructure machines, and whether the control plane acts.
//
// +kubebuilder:validation:XValidation:rule="!(self.?inPlace.?policy.orValue('Never') in ['Preferred', 'Only']) || self.?machineTemplate.?spec.?bootstrap.?configRef.?kind.orValue('None') == 'KubeadmConfigTemplate'",fieldPath=".inPlace.policy",message="inPlace.policy Preferred and Only need a KubeadmConfigTemplate in machineTemplate.spec.bootstrap.configRef: machines are changed in place only where kubeadm made them; Never and External are accepted with any bootstrap provider"
type ControlPlaneTemplateResourceSpec struct {
	// machineTemplate is what the control plane's Machines are made from.
	// +optional
	MachineTemplate ControlPlaneTemplateMachineTemplate `json:"machineTemplate,omitempty,omitzero"`

	CommonSpec `json:",inline"`
}

// ControlPlaneTemplateMachineTemplate is the metadata and spec of a control plane's Machines.
//
// +kubebuilder:validation:MinProperties=1
type ControlPlaneTemplateMachineTemplate struct {
	// metadata are labels and annotations of Machines, infrastructure machines and bootstrap configurations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what the control plane's Machines are made from.
	// +optional
	Spec ControlPlaneTemplateMachineTemplateSpec `json:"spec,omitempty,omitzero"`
}

// ControlPlaneTemplateMachineTemplateSpec is what a control plane's Machines are made from.
//
// +kubebuilder:validation:MinProperties=1
type ControlPlaneTemplateMachineTemplateSpec struct {
	// bootstrap is where machines get their bootstrap data from. Without it they get none: their image joins by itself.
	// +optional
	Bootstrap BootstrapSpec `json:"bootstrap,omitempty,omitzero"`

	// deletion says how long the steps of a Machine's deletion may take.
	// +optional
	Deletion clusterv1.MachineDeletionSpec `json:"deletion,omitempty,omitzero"`

	// taints are the taints of Nodes that Cluster API manages. Others on the same Nodes stay as they are.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +listMapKey=effect
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Taints []clusterv1.MachineTaint `json:"taints,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=controlplanetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=control-plane-quorate"
// +kubebuilder:printcolumn:name="ClusterClass",type="string",JSONPath=`.metadata.ownerReferences[?(@.kind=="ClusterClass")].name`,description="The ClusterClass that owns it"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// ControlPlaneTemplate is what the control planes of a ClusterClass are made from.
type ControlPlaneTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the template.
	// +optional
	Spec ControlPlaneTemplateSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// ControlPlaneTemplateList is a list of templates.
type ControlPlaneTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the templates.
	Items []ControlPlaneTemplate `json:"items"`
}
