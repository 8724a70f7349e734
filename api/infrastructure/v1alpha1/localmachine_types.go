package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
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
	// OwnerAnnotation is the UID that the LocalMachine had when its machine on the host was made. A move to another API server changes the UID
	// and keeps the annotation: it says which machine is the LocalMachine's.
	OwnerAnnotation = "infrastructure.cluster.x-k8s.io/local-owner"
)

// Condition types of a LocalMachine beside Ready and Paused.
const (
	// SandboxReadyCondition is true while the machine's first process runs and containerd answers.
	SandboxReadyCondition = "SandboxReady"
	// BootstrapSucceededCondition is true once the bootstrap data was executed to its end, and the kubelet does not end again and again.
	// False carries why the machine cannot join, where that is known, else the command that failed and the end of its output, or the
	// directive that is not supported.
	BootstrapSucceededCondition = "BootstrapSucceeded"
)

// LocalMachineSpec is the machine that is wanted.
type LocalMachineSpec struct {
	// providerID is set by the provider: "local://" and the machine's name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ProviderID string `json:"providerID,omitempty"`

	// addresses are IPv4 addresses of which the machine gets the first that is free; while none is, it waits and says whose they are. Without
	// them it gets any that is free and that no other LocalMachine, and no LocalMachineTemplate, names. Machines made from one template share
	// its list: each has another of them, and gives it back when it is gone. They must be addresses for machines of the host's environment:
	// by default those from 172.30.1.1 to 172.30.255.254. They cannot change once the machine has one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=15
	// +kubebuilder:validation:items:Format=ipv4
	Addresses []string `json:"addresses,omitempty"`

	// resources are what the machine may use of its host. Without them it may use everything. They are the same for the
	// machine's whole life: other resources are given to other machines, made from another template. cpu must be at least 100m,
	// memory at least 768Mi.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || !isQuantity(string(self.cpu)) || quantity(string(self.cpu)).compareTo(quantity('100m')) >= 0",message="cpu must be at least 100m",fieldPath=".cpu"
	// +kubebuilder:validation:XValidation:rule="!has(self.memory) || !isQuantity(string(self.memory)) || quantity(string(self.memory)).compareTo(quantity('768Mi')) >= 0",message="memory must be at least 768Mi, which a control plane made by kubeadm needs",fieldPath=".memory"
	Resources LocalMachineResources `json:"resources,omitempty,omitzero"`
}

// LocalMachineResources are limits of the machine's cgroup. A machine is made only while the host has that much which is not
// promised to other machines of the environment, but nothing is set aside for it. The kubelet on the machine does not know of the
// limits: it reports the host's CPUs and memory as the Node's capacity.
//
// +kubebuilder:validation:MinProperties=1
type LocalMachineResources struct {
	// cpu is how much CPU time the machine may use: 2 is that of two CPUs, 500m half of one's.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// memory is how much memory all programs on the machine may use, together with the files that the kernel caches for them. When nothing
	// is left that the kernel can reclaim, it kills a program that needs more. kubeadm's control plane uses 350 to 420 MB that cannot be
	// reclaimed, and needs its programs' files besides.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
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

	// podCIDR is the part of the cluster's pod network that lies on this machine: of IPv4, or of IPv6 where the cluster has no IPv4.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	PodCIDR string `json:"podCIDR,omitempty"`

	// bootstrapToken is the bootstrap token in the machine's data, if the cluster knew it when the machine got that: it distinguishes a
	// token that has expired from one that was never made.
	// +optional
	BootstrapToken BootstrapTokenStatus `json:"bootstrapToken,omitempty,omitzero"`

	// resources are the limits that the machine was made with. Without them it may use all that its host has.
	// +optional
	Resources LocalMachineResources `json:"resources,omitempty,omitzero"`
}

// BootstrapTokenStatus is what a cluster knew of a bootstrap token.
//
// +kubebuilder:validation:MinProperties=1
type BootstrapTokenStatus struct {
	// id is the part of the token before the dot, which is no secret.
	// +optional
	// +kubebuilder:validation:MinLength=6
	// +kubebuilder:validation:MaxLength=6
	ID string `json:"id,omitempty"`

	// expirationTime is when the token expires, as read when the machine got its data. The token's owner may extend it later. Without it the
	// token does not expire.
	// +optional
	ExpirationTime metav1.Time `json:"expirationTime,omitempty,omitzero"`
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
// +kubebuilder:printcolumn:name="CPU",type="string",JSONPath=".status.resources.cpu",priority=10
// +kubebuilder:printcolumn:name="Memory",type="string",JSONPath=".status.resources.memory",priority=10
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Why",type="string",JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// LocalMachine is one machine made of namespaces on this host.
//
// +kubebuilder:validation:XValidation:rule="has(self.spec) && has(self.spec.resources) && has(self.spec.resources.cpu) ? has(oldSelf.spec) && has(oldSelf.spec.resources) && has(oldSelf.spec.resources.cpu) && quantity(string(self.spec.resources.cpu)).compareTo(quantity(string(oldSelf.spec.resources.cpu))) == 0 : !(has(oldSelf.spec) && has(oldSelf.spec.resources) && has(oldSelf.spec.resources.cpu))",message="spec.resources.cpu cannot change: make another machine, from another template"
// +kubebuilder:validation:XValidation:rule="has(self.spec) && has(self.spec.resources) && has(self.spec.resources.memory) ? has(oldSelf.spec) && has(oldSelf.spec.resources) && has(oldSelf.spec.resources.memory) && quantity(string(self.spec.resources.memory)).compareTo(quantity(string(oldSelf.spec.resources.memory))) == 0 : !(has(oldSelf.spec) && has(oldSelf.spec.resources) && has(oldSelf.spec.resources.memory))",message="spec.resources.memory cannot change: make another machine, from another template"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.status) || !has(oldSelf.status.addresses) || oldSelf.status.addresses.size() == 0 || (has(self.spec) && has(self.spec.addresses) ? has(oldSelf.spec) && has(oldSelf.spec.addresses) && self.spec.addresses == oldSelf.spec.addresses : !(has(oldSelf.spec) && has(oldSelf.spec.addresses)))",message="spec.addresses cannot change once the machine has one of them: make another machine, from another template"
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
