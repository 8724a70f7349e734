package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	controlplane "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1alpha1 "github.com/quorate/quorate/api/bootstrap/v1alpha1"
	controlplanev1alpha1 "github.com/quorate/quorate/api/controlplane/v1alpha1"
	"github.com/quorate/quorate/api/controlplane/v1beta2"
)

// CommonSpec are the fields that an etcd cluster and a template of etcd clusters have in common.
//
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || !has(self.rollout.strategy) || !has(self.rollout.strategy.rollingUpdate) || !has(self.rollout.strategy.rollingUpdate.maxSurge) || (type(self.rollout.strategy.rollingUpdate.maxSurge) == int ? self.rollout.strategy.rollingUpdate.maxSurge in [0, 1] : self.rollout.strategy.rollingUpdate.maxSurge in ['0', '1'])",fieldPath=".rollout.strategy.rollingUpdate.maxSurge",message="maxSurge must be 0 or 1"
type CommonSpec struct {
	// infrastructureTemplate refers to the template of infrastructure machines, in the etcd cluster's namespace. Another template
	// replaces the machines.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.kind.endsWith('Template')",fieldPath=".kind",messageExpression="'kind is ' + self.kind + ': the kind of a template is accepted, which ends in Template, such as LocalMachineTemplate'"
	InfrastructureTemplate clusterv1.ContractVersionedObjectReference `json:"infrastructureTemplate,omitempty,omitzero"`

	// etcdadmConfigSpec is how the machines become members. Another one replaces them. The version is spec.version.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.version)",fieldPath=".version",messageExpression="'version is ' + self.version + ': none is accepted here, as spec.version says it for all machines'"
	EtcdadmConfigSpec bootstrapv1alpha1.EtcdadmConfigSpec `json:"etcdadmConfigSpec,omitempty,omitzero"`

	// version is the version of etcd, such as 3.6.16, with or without a leading v. Another version replaces the machines, one
	// after the other. Defaults to 3.6.16.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^v?3[.][0-9]+[.][0-9]+(-[0-9A-Za-z.-]+)?$')",messageExpression="'version is ' + self + ': a version of etcd 3 such as 3.6.16 is accepted'"
	Version string `json:"version,omitempty"`

	// failureDomains are those that the machines are spread over. Defaults to all that the cluster has for control planes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`

	// rollout says when and how machines are replaced although nothing is wrong with them. It has the fields of KubeadmControlPlane's, with
	// the same meaning. before.certificatesExpiryDays defaults to 30: only a rollout renews the certificates of members, which are made for
	// a year.
	// +optional
	Rollout controlplane.KubeadmControlPlaneRolloutSpec `json:"rollout,omitempty,omitzero"`

	// approval reports whether a person must approve before machines are replaced, also those whose certificates expire, and how many are in a
	// day.
	// +optional
	Approval v1beta2.ApprovalSpec `json:"approval,omitempty,omitzero"`

	// backup takes backups by a schedule, and proves that they can be restored. Defaults to none.
	// +optional
	Backup *v1beta2.BackupSpec `json:"backup,omitempty"`

	// etcdMaintenance says how the members are tended.
	// +optional
	EtcdMaintenance v1beta2.EtcdMaintenanceSpec `json:"etcdMaintenance,omitempty,omitzero"`

	// remediation limits how often unhealthy machines are replaced.
	// +optional
	Remediation controlplanev1alpha1.RemediationSpec `json:"remediation,omitempty,omitzero"`

	// autoRepair replaces machines whose member fails, as far as the quorum allows. Without it only machines that somebody, or
	// a MachineHealthCheck of the user's, marks as unhealthy are replaced.
	// +optional
	AutoRepair *AutoRepairSpec `json:"autoRepair,omitempty"`

	// joins says how new members join.
	// +optional
	Joins controlplanev1alpha1.JoinsSpec `json:"joins,omitempty,omitzero"`

	// machineTemplate is the metadata of the etcd cluster's Machines, and how long the steps of their deletion may take.
	// +optional
	MachineTemplate MachineTemplate `json:"machineTemplate,omitempty,omitzero"`
}

// AutoRepairSpec says when a member counts as unhealthy.
type AutoRepairSpec struct {
	// startupTimeoutSeconds is how long a machine may take until its member votes. Defaults to 1200.
	// +optional
	// +kubebuilder:validation:Minimum=60
	StartupTimeoutSeconds *int32 `json:"startupTimeoutSeconds,omitempty"`

	// unhealthyTimeoutSeconds is how long a member may fail to answer. Defaults to 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	UnhealthyTimeoutSeconds *int32 `json:"unhealthyTimeoutSeconds,omitempty"`
}

// MachineTemplate is what Machines have beside their member.
//
// +kubebuilder:validation:MinProperties=1
type MachineTemplate struct {
	// metadata are labels and annotations of Machines, infrastructure machines and bootstrap configurations. They are changed
	// without replacing machines.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`

	// spec is what Machines are made from.
	// +optional
	Spec MachineTemplateSpec `json:"spec,omitempty,omitzero"`
}

// MachineTemplateSpec is what Machines are made from.
//
// +kubebuilder:validation:MinProperties=1
type MachineTemplateSpec struct {
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
}

// EtcdClusterSpec is the etcd cluster that is wanted.
type EtcdClusterSpec struct {
	// replicas is the number of members wanted: 1, 3, 5 or 7. Defaults to 3.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:XValidation:rule="oldSelf == optional.of(self) || self >= 1 && self <= 7 && self % 2 == 1",optionalOldSelf=true,messageExpression="'replicas is %d: 1, 3, 5 or 7 members are accepted, an even number only adds one that can fail'.format([self])"
	Replicas *int32 `json:"replicas,omitempty"`

	// endpoint is the name or address of the user's load balancer or DNS record for all members, with a port or without. It becomes part of
	// the members' certificates, and the control plane uses nothing else. Without it the endpoint that the infrastructure offers is used, or
	// the members' own addresses.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=261
	Endpoint string `json:"endpoint,omitempty"`

	CommonSpec `json:",inline"`
}

// EtcdClusterStatus is what was observed and decided. The fields ready and endpoints are the contract by which a control plane uses
// an etcd cluster of any provider.
type EtcdClusterStatus struct {
	// conditions are the observations of the etcd cluster's state.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// ready reports whether a control plane can use the etcd cluster. It stays true while members come and go.
	// +optional
	Ready *bool `json:"ready,omitempty"`

	// endpoints are the URLs at which the etcd cluster is reached, separated by commas.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Endpoints string `json:"endpoints,omitempty"`

	// initialized reports whether there was ever a member. From then on no machine begins another etcd cluster.
	// +optional
	Initialized *bool `json:"initialized,omitempty"`

	// initMachineAddress is the address of the machine that became the first member.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	InitMachineAddress string `json:"initMachineAddress,omitempty"`

	// members are the URLs of the members that vote and are healthy, separated by commas. New members join through them.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Members string `json:"members,omitempty"`

	// selector selects the etcd cluster's machines, as text for the scale subresource.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Selector string `json:"selector,omitempty"`

	// replicas is the number of machines that the etcd cluster has.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas is the number of machines whose condition Ready is true.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas is the number of machines whose condition Available is true.
	// +optional
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// upToDateReplicas is the number of machines whose condition UpToDate is true.
	// +optional
	UpToDateReplicas *int32 `json:"upToDateReplicas,omitempty"`

	// version is the oldest version of etcd among the members.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Version string `json:"version,omitempty"`

	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastRemediation is the replacement of an unhealthy machine that was begun last.
	// +optional
	LastRemediation controlplanev1alpha1.LastRemediationStatus `json:"lastRemediation,omitempty,omitzero"`

	// certificateExpiry is the serving certificate of the members that expires first.
	// +optional
	CertificateExpiry v1beta2.CertificateExpiryStatus `json:"certificateExpiry,omitempty,omitzero"`

	// plan is the step that was decided last, and why.
	// +optional
	Plan v1beta2.PlanStatus `json:"plan,omitempty,omitzero"`

	// backup is what came of the backups of etcd.
	// +optional
	Backup v1beta2.BackupStatus `json:"backup,omitempty,omitzero"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=etcdclusters,shortName=ec,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=control-plane-quorate"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Available",type="string",JSONPath=`.status.conditions[?(@.type=="Available")].status`,description="Whether a majority of the members answers"
// +kubebuilder:printcolumn:name="Desired",type="integer",JSONPath=".spec.replicas",description="Members wanted"
// +kubebuilder:printcolumn:name="Current",type="integer",JSONPath=".status.replicas",description="Current machines"
// +kubebuilder:printcolumn:name="Ready",type="integer",JSONPath=".status.readyReplicas",description="Machines that are ready"
// +kubebuilder:printcolumn:name="Up-to-date",type="integer",JSONPath=".status.upToDateReplicas",description="Machines as wanted"
// +kubebuilder:printcolumn:name="Next",type="string",JSONPath=".status.plan.step",description="The next step"
// +kubebuilder:printcolumn:name="Why",type="string",JSONPath=".status.plan.message",description="Why it is the next step",priority=10
// +kubebuilder:printcolumn:name="Endpoints",type="string",JSONPath=".status.endpoints",description="Where it is reached",priority=10
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=`.status.conditions[?(@.type=="Paused")].status`,description="Reconciliation paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type="string",JSONPath=".spec.version",description="Version of etcd wanted"

// EtcdCluster is an etcd cluster on machines of its own, which keeps the data of a control plane.
type EtcdCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the etcd cluster that is wanted.
	// +required
	Spec EtcdClusterSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed and decided.
	// +optional
	Status EtcdClusterStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions in the form that Cluster API's tools read.
func (in *EtcdCluster) GetConditions() []metav1.Condition { return in.Status.Conditions }

// SetConditions replaces the conditions.
func (in *EtcdCluster) SetConditions(conditions []metav1.Condition) {
	in.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// EtcdClusterList is a list of etcd clusters.
type EtcdClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the etcd clusters.
	Items []EtcdCluster `json:"items"`
}
