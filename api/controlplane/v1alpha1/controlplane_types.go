package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/api/controlplane/v1beta2"
)

// State reports whether a control plane acts on machines.
type State string

const (
	// StateActive is a control plane that creates, replaces, adopts and deletes machines.
	StateActive State = "Active"
	// StateInactive is a control plane that reports in its status what it would do, and changes nothing.
	StateInactive State = "Inactive"
)

// ControlPlaneSpec is the control plane that is wanted.
//
// +kubebuilder:validation:XValidation:rule="self.?machineTemplate.?spec.?infrastructureRef.hasValue() != self.?providerSpec.?value.hasValue()",messageExpression="self.?providerSpec.?value.hasValue() ? 'machineTemplate.spec.infrastructureRef is ' + self.machineTemplate.spec.infrastructureRef.kind + ' ' + self.machineTemplate.spec.infrastructureRef.name + ', and providerSpec.value is given too: exactly one of machineTemplate.spec.infrastructureRef and providerSpec.value is accepted' : 'machineTemplate.spec.infrastructureRef and providerSpec.value are both missing: exactly one of them is needed'"
// +kubebuilder:validation:XValidation:rule="has(self.managedExternalEtcdRef) == has(oldSelf.managedExternalEtcdRef) && (!has(self.managedExternalEtcdRef) || self.managedExternalEtcdRef.apiGroup == oldSelf.managedExternalEtcdRef.apiGroup && self.managedExternalEtcdRef.kind == oldSelf.managedExternalEtcdRef.kind && has(self.managedExternalEtcdRef.name) == has(oldSelf.managedExternalEtcdRef.name) && (!has(self.managedExternalEtcdRef.name) || self.managedExternalEtcdRef.name == oldSelf.managedExternalEtcdRef.name))",fieldPath=".managedExternalEtcdRef",reason="FieldValueForbidden",message="managedExternalEtcdRef stays as it was when the control plane was made: the data are in the etcd that it names, or on the machines"
// +kubebuilder:validation:XValidation:rule="!(self.?inPlace.?policy.orValue('Never') in ['Preferred', 'Only']) || self.?machineTemplate.?spec.?bootstrap.?configRef.?kind.orValue('None') == 'KubeadmConfigTemplate'",fieldPath=".inPlace.policy",message="inPlace.policy Preferred and Only need a KubeadmConfigTemplate in machineTemplate.spec.bootstrap.configRef: machines are changed in place only where kubeadm made them; Never and External are accepted with any bootstrap provider"
type ControlPlaneSpec struct {
	// replicas is the number of machines wanted. Only odd numbers are permitted, also through /scale. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="oldSelf == optional.of(self) || self >= 1 && self % 2 == 1",optionalOldSelf=true,messageExpression="self < 1 ? 'replicas is %d: at least one machine is needed; 1, 3, 5 and other odd numbers are accepted'.format([self]) : 'replicas is %d: a control plane needs an odd number of machines (1, 3, 5 and so on), an even one only adds a machine that can fail'.format([self])"
	Replicas *int32 `json:"replicas,omitempty"`

	// version is the Kubernetes version of the machines, such as v1.36.3. Another version replaces them. Without it Machines
	// have no version; the kubeadm bootstrap provider needs one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^v(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)([-+].+)?$')",messageExpression="'version is ' + self + ': it must be of the form v1.36.3'"
	Version string `json:"version,omitempty"`

	// state reports whether the control plane acts. Active: it creates, replaces, adopts and deletes machines. Inactive: it
	// reports in its status what it would do, and changes nothing. Without it a control plane that has no machines of its own and
	// never made one is inactive while there are machines that it would adopt; any other is active.
	// +optional
	// +kubebuilder:validation:Enum=Active;Inactive
	State State `json:"state,omitempty"`

	// machineTemplate is what the control plane's Machines are made from.
	// +optional
	MachineTemplate ControlPlaneMachineTemplate `json:"machineTemplate,omitempty,omitzero"`

	CommonSpec `json:",inline"`
}

// ControlPlaneMachineTemplate is the metadata and spec of a control plane's Machines.
//
// +kubebuilder:validation:MinProperties=1
type ControlPlaneMachineTemplate struct {
	// metadata are labels and annotations of Machines, infrastructure machines and bootstrap configurations. They are
	// changed without replacing machines.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what the control plane's Machines are made from.
	// +optional
	Spec ControlPlaneMachineTemplateSpec `json:"spec,omitempty,omitzero"`
}

// ControlPlaneMachineTemplateSpec is what a control plane's Machines are made from.
//
// +kubebuilder:validation:MinProperties=1
type ControlPlaneMachineTemplateSpec struct {
	// infrastructureRef refers to the template of infrastructure machines, in the control plane's namespace. Another template
	// replaces the machines. Exactly one of infrastructureRef and spec.providerSpec.value is needed.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.kind.endsWith('Template')",fieldPath=".kind",messageExpression="'kind is ' + self.kind + ': the kind of a template is accepted, which ends in Template, such as LocalMachineTemplate'"
	InfrastructureRef clusterv1.ContractVersionedObjectReference `json:"infrastructureRef,omitempty,omitzero"`

	// bootstrap is where machines get their bootstrap data from. Without it they get none: their image joins by itself.
	// +optional
	Bootstrap BootstrapSpec `json:"bootstrap,omitempty,omitzero"`

	// readinessGates are conditions of a Machine that must hold for the Machine to be ready, beside those that Quorate sets.
	// +optional
	// +listType=map
	// +listMapKey=conditionType
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ReadinessGates []clusterv1.MachineReadinessGate `json:"readinessGates,omitempty"`

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

// ControlPlaneStatusError is why a control plane cannot be reconciled, in one CamelCase word.
type ControlPlaneStatusError string

// ControlPlaneStatus is what was observed and decided.
type ControlPlaneStatus struct {
	// conditions are the observations of the control plane's state.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is the part of the status that Cluster API waits for before other machines are made.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// selector selects the control plane's machines, as text for the scale subresource.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Selector string `json:"selector,omitempty"`

	// replicas is the number of machines that the control plane has.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// updatedReplicas is the number of machines made from the current template or providerSpec. It is upToDateReplicas under
	// an earlier name.
	// +optional
	UpdatedReplicas *int32 `json:"updatedReplicas,omitempty"`

	// readyReplicas is the number of machines whose condition Ready is true.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// unavailableReplicas is the number of machines missing for the control plane to have all that are wanted: those that
	// are not available, and those that do not exist yet.
	// +optional
	UnavailableReplicas *int32 `json:"unavailableReplicas,omitempty"`

	// availableReplicas is the number of machines whose condition Available is true.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// upToDateReplicas is the number of machines whose condition UpToDate is true.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`

	// versions are the Kubernetes versions of the machines, the oldest first.
	// +optional
	// +listType=map
	// +listMapKey=version
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Versions []clusterv1.StatusVersion `json:"versions,omitempty"`

	// version is the oldest Kubernetes version of the machines, for readers that do not know versions.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`

	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// failureReason is why the control plane cannot be reconciled before somebody intervenes, in one CamelCase word.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureReason ControlPlaneStatusError `json:"failureReason,omitempty"`

	// failureMessage is the same as a sentence, with names and numbers.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`

	// lastRemediation is the replacement of an unhealthy machine that was begun last.
	// +optional
	LastRemediation LastRemediationStatus `json:"lastRemediation,omitempty,omitzero"`

	// plan is the step that was decided last, and why. An inactive control plane shows here what it would do.
	// +optional
	Plan v1beta2.PlanStatus `json:"plan,omitempty,omitzero"`

	// backup is what came of the backups of etcd.
	// +optional
	Backup v1beta2.BackupStatus `json:"backup,omitempty,omitzero"`

	// certificates is a summary of the certificates that the manager sees.
	// +optional
	Certificates v1beta2.CertificatesStatus `json:"certificates,omitempty,omitzero"`
}

// InitializationStatus is the part of the status that Cluster API waits for before other machines are made.
//
// +kubebuilder:validation:MinProperties=1
type InitializationStatus struct {
	// controlPlaneInitialized reports whether the control plane has ever accepted requests.
	// +optional
	ControlPlaneInitialized *bool `json:"controlPlaneInitialized,omitempty"`
}

// LastRemediationStatus is one replacement of an unhealthy machine.
type LastRemediationStatus struct {
	// machine is the name of the Machine that was replaced.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine,omitempty"`

	// time is when the replacement began.
	// +required
	Time metav1.Time `json:"time,omitempty,omitzero"`

	// retryCount is the number of replacements before this one that became unhealthy themselves.
	// +required
	// +kubebuilder:validation:Minimum=0
	RetryCount *int32 `json:"retryCount,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=controlplanes,shortName=cp,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=control-plane-quorate"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Available",type="string",JSONPath=`.status.conditions[?(@.type=="Available")].status`,description="Whether the control plane accepts requests"
// +kubebuilder:printcolumn:name="Desired",type="integer",JSONPath=".spec.replicas",description="Machines wanted"
// +kubebuilder:printcolumn:name="Current",type="integer",JSONPath=".status.replicas",description="Current machines"
// +kubebuilder:printcolumn:name="Ready",type="integer",JSONPath=".status.readyReplicas",description="Machines that are ready"
// +kubebuilder:printcolumn:name="Up-to-date",type="integer",JSONPath=".status.upToDateReplicas",description="Machines as wanted"
// +kubebuilder:printcolumn:name="Next",type="string",JSONPath=".status.plan.step",description="The next step"
// +kubebuilder:printcolumn:name="Why",type="string",JSONPath=".status.plan.message",description="Why it is the next step",priority=10
// +kubebuilder:printcolumn:name="Etcd",type="string",JSONPath=".spec.etcd.management",description="Who manages etcd",priority=10
// +kubebuilder:printcolumn:name="State",type="string",JSONPath=".spec.state",description="Whether the control plane acts",priority=10
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=`.status.conditions[?(@.type=="Paused")].status`,description="Reconciliation paused",priority=10
// +kubebuilder:printcolumn:name="Initialized",type="boolean",JSONPath=".status.initialization.controlPlaneInitialized",description="Whether the control plane has ever accepted requests"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type="string",JSONPath=".spec.version",description="Kubernetes version wanted"

// ControlPlane is the machines of a control plane as one entity. What runs on them is set up by any bootstrap provider, or
// by the machines themselves.
type ControlPlane struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the control plane that is wanted.
	// +required
	Spec ControlPlaneSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed and decided.
	// +optional
	Status ControlPlaneStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions in the form that Cluster API's tools read.
func (in *ControlPlane) GetConditions() []metav1.Condition { return in.Status.Conditions }

// SetConditions replaces the conditions.
func (in *ControlPlane) SetConditions(conditions []metav1.Condition) {
	in.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// ControlPlaneList is a list of control planes.
type ControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the control planes.
	Items []ControlPlane `json:"items"`
}
