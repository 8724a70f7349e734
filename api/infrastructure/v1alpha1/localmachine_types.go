package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// MachineFinalizer keeps a LocalMachine until its namespaces, mounts, link and files are gone.
const MachineFinalizer = "infrastructure.cluster.x-k8s.io/localmachine"

// Annotations of a LocalMachine that have it take its time, as machines of a cloud or of metal do. Each is a duration such as "90s"
// or "2m". A LocalMachineTemplate gives them to its machines by spec.template.metadata.annotations.
const (
	// ProvisioningDelayAnnotation is how long after its creation the machine is made.
	ProvisioningDelayAnnotation = "infrastructure.cluster.x-k8s.io/local-provisioning-delay"
	// DeletionDelayAnnotation is how long the machine, with all that runs on it, lives on once its deletion was asked for.
	DeletionDelayAnnotation = "infrastructure.cluster.x-k8s.io/local-deletion-delay"
)

// Condition types of a LocalMachine beside Ready and Paused.
const (
	// SandboxReadyCondition is true while the machine's first process runs and containerd answers.
	SandboxReadyCondition = "SandboxReady"
	// BootstrapSucceededCondition is true once the bootstrap data was executed to its end. False carries
	// the command that failed and the end of its output, or the directive that is not supported.
	BootstrapSucceededCondition = "BootstrapSucceeded"
)

// LocalMachineSpec is the machine that is wanted.
type LocalMachineSpec struct {
	// providerID is set by the provider: "local://" and the machine's name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`
}

// LocalMachineStatus is what was observed.
type LocalMachineStatus struct {
	// conditions are Ready, SandboxReady, BootstrapSucceeded and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is the part that Cluster API's contract asks for.
	// +optional
	Initialization Initialization `json:"initialization,omitempty,omitzero"`

	// addresses are the machine's name and its address on this host's bridge.
	// +optional
	// +kubebuilder:validation:MaxItems=32
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain is the one that the Machine asked for.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// podCIDR is the part of the cluster's pod network that lies on this machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	PodCIDR string `json:"podCIDR,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localmachines,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=infrastructure-quorate"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']"
// +kubebuilder:printcolumn:name="ProviderID",type="string",JSONPath=".spec.providerID"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Why",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// LocalMachine is one machine made of namespaces on this host.
type LocalMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the machine that is wanted.
	// +optional
	Spec LocalMachineSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed.
	// +optional
	Status LocalMachineStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (in *LocalMachine) GetConditions() []metav1.Condition { return in.Status.Conditions }

// SetConditions replaces the conditions.
func (in *LocalMachine) SetConditions(c []metav1.Condition) { in.Status.Conditions = c }

// +kubebuilder:object:root=true

// LocalMachineList is a list of local machines.
type LocalMachineList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the machines.
	Items []LocalMachine `json:"items"`
}

// LocalMachineTemplateSpec holds the template of a LocalMachine. It may change, as Cluster API's topology controller asks
// for; only machines made afterwards follow.
type LocalMachineTemplateSpec struct {
	// template is the machine's metadata and spec.
	// +required
	Template LocalMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// LocalMachineTemplateResource is the metadata and spec that machines are made with.
//
// +kubebuilder:validation:MinProperties=0
// +kubebuilder:validation:XValidation:rule="!has(self.spec) || !has(self.spec.providerID)",message="a machine template cannot be changed to have, or made with, spec.providerID: each machine gets its own"
type LocalMachineTemplateResource struct {
	// metadata are labels and annotations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the machine's spec.
	// +optional
	Spec LocalMachineSpec `json:"spec,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=localmachinetemplates,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=infrastructure-quorate"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// LocalMachineTemplate is what machines are cloned from.
type LocalMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the template.
	// +optional
	Spec LocalMachineTemplateSpec `json:"spec,omitempty,omitzero"`
}

// +kubebuilder:object:root=true

// LocalMachineTemplateList is a list of templates.
type LocalMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the templates.
	Items []LocalMachineTemplate `json:"items"`
}
