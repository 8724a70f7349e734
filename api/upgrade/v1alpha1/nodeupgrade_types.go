package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MachineReference names a Machine in the same namespace.
type MachineReference struct {
	// name is the Machine's.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
}

// NodeType says what a node is.
//
// +kubebuilder:validation:Enum=ControlPlane;Worker
type NodeType string

// The values of NodeType.
const (
	ControlPlane NodeType = "ControlPlane"
	Worker       NodeType = "Worker"
)

// DrainPolicy reports whether pods leave a node before its kubelet restarts.
//
// +kubebuilder:validation:Enum=Never;BestEffort;Required
type DrainPolicy string

// The values of DrainPolicy.
const (
	// DrainNever leaves pods where they are: containers go on while the kubelet restarts.
	DrainNever DrainPolicy = "Never"
	// DrainBestEffort cordons and drains, and goes on when the time is over.
	DrainBestEffort DrainPolicy = "BestEffort"
	// DrainRequired cordons and drains, and fails when the time is over; the node is uncordoned then.
	DrainRequired DrainPolicy = "Required"
)

// DrainSpec says how a node is drained.
type DrainSpec struct {
	// policy defaults to Never on control plane nodes, and to BestEffort on workers. The only node of a cluster is never drained. Where pods
	// have no room on other nodes, BestEffort does not drain, and Required waits for room for timeoutSeconds before it evicts anything.
	// +optional
	Policy DrainPolicy `json:"policy,omitempty"`
	// timeoutSeconds is how long draining may take. Defaults to 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// KubeletArgument is an argument of a kubelet.
type KubeletArgument struct {
	// name is that of the flag, without dashes before it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9_-]*$`
	Name string `json:"name,omitempty"`
	// value is the flag's. It must have no spaces, quotes or backslashes: kubeadm writes values without quotes around them.
	// +required
	// +kubebuilder:validation:MinLength=0
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[^\s"'\\]*$`
	Value *string `json:"value,omitempty"`
}

// NodeUpgradeKubelet is what of the kubelet's arguments changes. Those that are named nowhere stay as they are on the node, kubeadm's own
// among them.
//
// +kubebuilder:validation:MinProperties=1
type NodeUpgradeKubelet struct {
	// extraArgs are arguments that the kubelet is to have, beside others. One name may be there more than once; what the node has of that name
	// goes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	ExtraArgs []KubeletArgument `json:"extraArgs,omitempty"`
	// removedArgs are names of arguments that the kubelet is not to have any more.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z0-9][A-Za-z0-9_-]*$`
	RemovedArgs []string `json:"removedArgs,omitempty"`
}

// NodeUpgradeFile names a file of the kubeadmConfigSpec of the Machine's KubeadmControlPlane.
type NodeUpgradeFile struct {
	// path is the file's on the node.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Path string `json:"path,omitempty"`
	// hash identifies all that the control plane said of the file when the upgrade was made, or of where its content is. If it says something
	// else by the time the upgrade begins, that fails.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`
}

// NodeUpgradeSpec is what one node must run. It cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the spec of a NodeUpgrade cannot be changed: delete it, and create another"
type NodeUpgradeSpec struct {
	// machine is the Machine whose node is upgraded.
	// +required
	Machine MachineReference `json:"machine,omitempty,omitzero"`
	// kubernetesVersion is the wanted version, such as v1.36.3.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^v(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)([-+].+)?$')",messageExpression="'kubernetesVersion is ' + self + ': it must be of the form v1.36.3'"
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// etcdVersion is the image tag of stacked etcd, such as 3.6.16-0. Defaults to what kubeadm's configuration in the cluster says, or else to
	// the one of the wanted version's kubeadm.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	EtcdVersion string `json:"etcdVersion,omitempty"`
	// nodeType says what the node is.
	// +required
	NodeType NodeType `json:"nodeType,omitempty"`
	// firstNodeToBeUpgraded: it is the first of its control plane, so that what the whole cluster has once, such as kubeadm's configuration,
	// is brought up to date with it. Ignored for workers.
	// +optional
	FirstNodeToBeUpgraded *bool `json:"firstNodeToBeUpgraded,omitempty"`
	// kubelet says which arguments of the kubelet change. Without it they stay as they are.
	// +optional
	Kubelet NodeUpgradeKubelet `json:"kubelet,omitempty,omitzero"`
	// files are those of the control plane that are written on the node. What they hold is not here, as it may be secret.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=200
	Files []NodeUpgradeFile `json:"files,omitempty"`
	// drain reports whether pods leave the node before.
	// +optional
	Drain DrainSpec `json:"drain,omitempty,omitzero"`
	// upgraderImage is the image with the upgrader and what it installs. Defaults to what the ConfigMap quorate-upgrader-images, in this
	// namespace or in Quorate's, has under the key kubernetesVersion, or else to the manager's flag.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	UpgraderImage string `json:"upgraderImage,omitempty"`
	// verifyTimeoutSeconds is how long the new version may take until it serves, before the node is put back. Defaults to 120.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=3600
	VerifyTimeoutSeconds *int32 `json:"verifyTimeoutSeconds,omitempty"`
}

// NodeUpgradeStatus is how far an upgrade is.
type NodeUpgradeStatus struct {
	// conditions are Progressing, Completed, and one for each step, in the order of the steps: since when it is as it is, how long it took,
	// and the end of what it printed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// steps are those of this node, in their order. Those that change nothing are left out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=24
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=64
	Steps []string `json:"steps,omitempty"`
	// completed: the node runs what is wanted.
	// +optional
	Completed *bool `json:"completed,omitempty"`
	// failedStep is the step that failed. Deleting the pod, or `quorate upgrade retry`, goes on from there.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	FailedStep string `json:"failedStep,omitempty"`
	// attempts is how many pods were made for it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempts *int32 `json:"attempts,omitempty"`
	// retriedAttempt is the attempt with which a person had it tried again last. From there on, pods that were cut off are replaced a few
	// times.
	// +optional
	// +kubebuilder:validation:Minimum=1
	RetriedAttempt *int32 `json:"retriedAttempt,omitempty"`
	// observedGeneration is the generation that this tells of.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodeupgrades,shortName=nodeup,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Machine",type="string",JSONPath=".spec.machine.name",description="Machine"
// +kubebuilder:printcolumn:name="Version",type="string",JSONPath=".spec.kubernetesVersion",description="Kubernetes version wanted"
// +kubebuilder:printcolumn:name="Completed",type="boolean",JSONPath=".status.completed",description="The node runs what is wanted"
// +kubebuilder:printcolumn:name="Progress",type="string",JSONPath=`.status.conditions[?(@.type=="Progressing")].reason`,description="What it does or waits for"
// +kubebuilder:printcolumn:name="Failed",type="string",JSONPath=".status.failedStep",description="The step that failed"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// NodeUpgrade changes the versions of one node's components without replacing its machine.
type NodeUpgrade struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what the node must run.
	// +required
	Spec NodeUpgradeSpec `json:"spec,omitempty,omitzero"`
	// status is how far it is.
	// +optional
	Status NodeUpgradeStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions in the form that Cluster API's tools read.
func (in *NodeUpgrade) GetConditions() []metav1.Condition { return in.Status.Conditions }

// SetConditions replaces the conditions.
func (in *NodeUpgrade) SetConditions(conditions []metav1.Condition) {
	in.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// NodeUpgradeList is a list of upgrades of nodes.
type NodeUpgradeList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the upgrades.
	Items []NodeUpgrade `json:"items"`
}
