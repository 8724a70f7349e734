package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// ControlPlaneUpgradeSpec is what the nodes of a control plane must run. It cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of a ControlPlaneUpgrade cannot be changed: delete it, and create another"
type ControlPlaneUpgradeSpec struct {
	// controlPlane is the control plane, in the same namespace: a KubeadmControlPlane or a ControlPlane.
	// +required
	ControlPlane clusterv1.ContractVersionedObjectReference `json:"controlPlane,omitempty,omitzero"`
	// machinesRequireUpgrade are the Machines that were behind when this was made.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	MachinesRequireUpgrade []MachineReference `json:"machinesRequireUpgrade,omitempty"`
	// kubernetesVersion is the wanted version, such as v1.36.3.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// etcdVersion is the image tag of stacked etcd, such as 3.6.16-0. Defaults to that of kubeadm.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// controlPlaneSpecData is the control plane's spec that the nodes are brought to, as JSON, for people and tools that follow the upgrade.
	// Values that may be secret are left out.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	ControlPlaneSpecData string `json:"controlPlaneSpecData,omitempty"`
}

// MachineDeploymentUpgradeSpec is what the nodes of a MachineDeployment must run. It cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of a MachineDeploymentUpgrade cannot be changed: delete it, and create another"
type MachineDeploymentUpgradeSpec struct {
	// machineDeployment is the MachineDeployment, in the same namespace.
	// +required
	MachineDeployment MachineReference `json:"machineDeployment,omitempty,omitzero"`
	// machinesRequireUpgrade are the Machines that were behind when this was made.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5000
	MachinesRequireUpgrade []MachineReference `json:"machinesRequireUpgrade,omitempty"`
	// kubernetesVersion is the wanted version, such as v1.36.3.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// machineSpecData is the spec of the MachineDeployment's template, as JSON.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=262144
	MachineSpecData string `json:"machineSpecData,omitempty"`
	// maxUnavailable is how many nodes may be upgraded at once. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxUnavailable *int32 `json:"maxUnavailable,omitempty"`
}

// NodeFailure is the upgrade of a node that failed.
type NodeFailure struct {
	// machine is the name of the node's Machine.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine,omitempty"`
	// message names the step that failed, why, and what to do.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
}

// GroupUpgradeStatus is how far the upgrade of several nodes is.
type GroupUpgradeStatus struct {
	// requireUpgrade is how many nodes are still behind.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RequireUpgrade *int64 `json:"requireUpgrade,omitempty"`
	// upgraded is how many are done.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Upgraded *int64 `json:"upgraded,omitempty"`
	// ready: all nodes run what is wanted.
	// +optional
	Ready *bool `json:"ready,omitempty"`
	// failures are the nodes whose upgrade failed, and why.
	// +optional
	// +listType=map
	// +listMapKey=machine
	// +kubebuilder:validation:MaxItems=5000
	Failures []NodeFailure `json:"failures,omitempty"`
	// conditions are Progressing and Completed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation that this tells of.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=controlplaneupgrades,shortName=cpupgrade,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Control plane",type="string",JSONPath=".spec.controlPlane.name",description="Control plane"
// +kubebuilder:printcolumn:name="Version",type="string",JSONPath=".spec.kubernetesVersion",description="Kubernetes version wanted"
// +kubebuilder:printcolumn:name="Behind",type="integer",JSONPath=".status.requireUpgrade",description="Nodes that are still behind"
// +kubebuilder:printcolumn:name="Upgraded",type="integer",JSONPath=".status.upgraded",description="Nodes that are done"
// +kubebuilder:printcolumn:name="Ready",type="boolean",JSONPath=".status.ready",description="All nodes run what is wanted"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// ControlPlaneUpgrade reports the upgrade in place of the nodes of a control plane, one after the other. Quorate creates it where the
// control plane's spec.inPlace.policy is Preferred or Only, and machines are behind. One that a person creates is refused: set spec.version
// of the control plane instead, or create a NodeUpgrade for one node.
type ControlPlaneUpgrade struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the nodes must run.
	// +required
	Spec ControlPlaneUpgradeSpec `json:"spec,omitempty,omitzero"`
	// status is how far it is.
	// +optional
	Status GroupUpgradeStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions in the form that Cluster API's tools read.
func (in *ControlPlaneUpgrade) GetConditions() []metav1.Condition { return in.Status.Conditions }

// SetConditions replaces the conditions.
func (in *ControlPlaneUpgrade) SetConditions(conditions []metav1.Condition) {
	in.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// ControlPlaneUpgradeList is a list of upgrades of control planes.
type ControlPlaneUpgradeList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the upgrades.
	Items []ControlPlaneUpgrade `json:"items"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=machinedeploymentupgrades,shortName=mdupgrade,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="MachineDeployment",type="string",JSONPath=".spec.machineDeployment.name",description="MachineDeployment"
// +kubebuilder:printcolumn:name="Version",type="string",JSONPath=".spec.kubernetesVersion",description="Kubernetes version wanted"
// +kubebuilder:printcolumn:name="Behind",type="integer",JSONPath=".status.requireUpgrade",description="Nodes that are still behind"
// +kubebuilder:printcolumn:name="Upgraded",type="integer",JSONPath=".status.upgraded",description="Nodes that are done"
// +kubebuilder:printcolumn:name="Ready",type="boolean",JSONPath=".status.ready",description="All nodes run what is wanted"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// MachineDeploymentUpgrade reports the upgrade in place of the nodes of a MachineDeployment. Quorate creates it where the MachineDeployment
// has the annotation upgrade.cluster.x-k8s.io/in-place-policy with Preferred or Only, and machines are behind. One that a person creates is
// refused: set spec.template.spec.version of the MachineDeployment instead, or create a NodeUpgrade for one node.
type MachineDeploymentUpgrade struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the nodes must run.
	// +required
	Spec MachineDeploymentUpgradeSpec `json:"spec,omitempty,omitzero"`
	// status is how far it is.
	// +optional
	Status GroupUpgradeStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions in the form that Cluster API's tools read.
func (in *MachineDeploymentUpgrade) GetConditions() []metav1.Condition { return in.Status.Conditions }

// SetConditions replaces the conditions.
func (in *MachineDeploymentUpgrade) SetConditions(conditions []metav1.Condition) {
	in.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// MachineDeploymentUpgradeList is a list of upgrades of MachineDeployments.
type MachineDeploymentUpgradeList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the upgrades.
	Items []MachineDeploymentUpgrade `json:"items"`
}
