package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	upstream "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// LastMachineAnnotation on a control plane of any kind is the number in the name of
// the newest machine it ever created, so that names are never used twice.
const LastMachineAnnotation = "controlplane.cluster.x-k8s.io/quorate-last-machine"

// InitializedAnnotation on a control plane of any kind says that a cluster was initialised on its machines. Unlike the status it survives
// a move and a backup. To make another cluster under the same name, after the first and its data are gone, remove it.
const InitializedAnnotation = "controlplane.cluster.x-k8s.io/quorate-initialized"

// InitializingAnnotation on a control plane of any kind holds the object's own UID while its
// first machine is made. It proves that nothing was initialised before; on an object
// that was moved, restored or made again the UID is another, and it proves nothing.
const InitializingAnnotation = "controlplane.cluster.x-k8s.io/quorate-initializing"

// BootstrapStartedAnnotation on a Machine that was made ahead is when its bootstrap was started, as RFC 3339 has it: from then on
// it has its time to join.
const BootstrapStartedAnnotation = "controlplane.cluster.x-k8s.io/quorate-bootstrap-started"

// TokenMadeAnnotation on the KubeadmConfig of a machine that joins is when Quorate made its bootstrap token, as RFC 3339 has it. Where the
// bootstrap provider has made nothing of it after five minutes it gets another one, because a token is valid for a quarter of an hour.
const TokenMadeAnnotation = "controlplane.cluster.x-k8s.io/quorate-token-made"

// BootstrapHeld is the value of Cluster API's annotation paused on the bootstrap object of a machine that was made ahead. Without it the
// bootstrap provider might allow that machine to initialise the cluster, if the first one goes.
const BootstrapHeld = "until-it-may-join"

// MemberRemovedAnnotation on a Machine holds the ID of its etcd member, in hexadecimal, from the
// moment at which that is about to be removed. It proves that the machine's kubeadm adds no
// member any more once etcd's list is without that ID.
const MemberRemovedAnnotation = "controlplane.cluster.x-k8s.io/quorate-member-removed"

// CreatedAnnotation on a Machine is when it was first created, as RFC 3339 has it. Unlike the object's creation timestamp it
// survives a move and a backup. Machines that others made do not have it.
const CreatedAnnotation = "controlplane.cluster.x-k8s.io/quorate-created"

// AddonsHealthyCondition reports whether kubeadm's add-ons, kube-proxy and CoreDNS, work by the status of their DaemonSet and
// Deployment. It is not there where others keep them. Nothing is decided by it.
const AddonsHealthyCondition = "AddonsHealthy"

// ExternalEtcdHealthyCondition reports the health of an etcd that does not run on the control plane's machines, as its endpoints
// report it. While none of them is healthy no machine is added, replaced or removed for the spec.
const ExternalEtcdHealthyCondition = "ExternalEtcdHealthy"

// EtcdDataConsistentCondition reports whether the voters of the etcd of a control plane, or of an EtcdCluster, have the same data, by the
// hash of all keys at one revision. They are compared every six hours where all is as wanted, and when other members or versions have come.
// It is not there for a single voter, and before the first comparison. No machine joins while data differ.
const EtcdDataConsistentCondition = "EtcdDataConsistent"

// Reasons of EtcdDataConsistentCondition.
const (
	EtcdDataConsistentReason = "Consistent"
	EtcdDataDiffersReason    = "DataDiffers"
	EtcdDataUnknownReason    = "NotCompared"
)

// KubeadmControlPlaneSpec is upstream's spec and Quorate's additions.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || oldSelf.?replicas == optional.of(self.replicas) || self.replicas >= 1 && (has(self.managedExternalEtcdRef) || self.?kubeadmConfigSpec.?clusterConfiguration.?etcd.?external.hasValue() || self.replicas % 2 == 1 && (self.replicas <= 7 || self.replicas <= oldSelf.?replicas.orValue(0)))",fieldPath=".replicas",optionalOldSelf=true,messageExpression="(has(self.managedExternalEtcdRef) || self.?kubeadmConfigSpec.?clusterConfiguration.?etcd.?external.hasValue() ? 'replicas is %d: at least one machine is needed; any number from 1 is accepted with external etcd' : self.replicas < 1 ? 'replicas is %d: at least one machine is needed; 1, 3, 5 or 7 are accepted with stacked etcd' : self.replicas % 2 == 0 ? 'replicas is %d: a control plane with stacked etcd needs an odd number of machines (1, 3, 5 or 7), an even one only adds a machine that can fail' : 'replicas is %d: stacked etcd is supported with 1, 3, 5 or 7 members, more only slow it down').format([self.replicas])"
// +kubebuilder:validation:XValidation:rule="!has(self.version) || self.version.matches('^v(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)([-+].+)?$')",fieldPath=".version",messageExpression="'version is ' + self.version + ': it must be of the form v1.36.3'"
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || !has(self.rollout.strategy) || !has(self.rollout.strategy.rollingUpdate) || !has(self.rollout.strategy.rollingUpdate.maxSurge) || (type(self.rollout.strategy.rollingUpdate.maxSurge) == int ? self.rollout.strategy.rollingUpdate.maxSurge in [0, 1] : self.rollout.strategy.rollingUpdate.maxSurge in ['0', '1'])",fieldPath=".rollout.strategy.rollingUpdate.maxSurge",message="maxSurge must be 0 or 1"
// +kubebuilder:validation:XValidation:rule="!has(self.managedExternalEtcdRef) || !self.?kubeadmConfigSpec.?clusterConfiguration.?etcd.?external.hasValue()",fieldPath=".managedExternalEtcdRef",message="one of managedExternalEtcdRef and kubeadmConfigSpec.clusterConfiguration.etcd.external is accepted, not both"
// +kubebuilder:validation:XValidation:rule="!has(self.powerState) || self.powerState != 'Hibernated' || has(self.backup) && !has(self.managedExternalEtcdRef) && !self.?kubeadmConfigSpec.?clusterConfiguration.?etcd.?external.hasValue()",fieldPath=".powerState",message="Hibernated requires backup, and etcd on the control plane's own machines: the control plane wakes from a backup"
type KubeadmControlPlaneSpec struct {
	upstream.KubeadmControlPlaneSpec `json:",inline"`
	Additions                        `json:",inline"`
}

// Additions are the fields of a control plane that Quorate adds to upstream's; a template has the same.
type Additions struct {
	// joins says how new machines join the control plane.
	// +optional
	Joins JoinsSpec `json:"joins,omitempty,omitzero"`

	// autoRepair replaces machines that break, by a MachineHealthCheck that the control plane owns, with a limit that its quorum allows.
	// Defaults to none.
	// +optional
	AutoRepair *AutoRepairSpec `json:"autoRepair,omitempty"`

	// managedExternalEtcdRef refers to the object that keeps the control plane's etcd on machines of its own, such as an EtcdCluster, in the
	// same namespace. The control plane waits until that is ready, and takes the endpoints from its status and the certificates from the
	// cluster's secrets. Defaults to none: etcd runs on the control plane's machines, or kubeadmConfigSpec names an external etcd.
	// +optional
	ManagedExternalEtcdRef ManagedEtcdReference `json:"managedExternalEtcdRef,omitempty,omitzero"`

	// inPlace reports whether machines that are behind are changed in place instead of being replaced.
	// +optional
	InPlace InPlaceSpec `json:"inPlace,omitempty,omitzero"`

	// approval reports whether a person must approve before machines are replaced or changed in place, and how many are in a day.
	// +optional
	Approval ApprovalSpec `json:"approval,omitempty,omitzero"`

	// backup takes backups of etcd by a schedule, and proves that they can be restored. Defaults to none. It needs etcd on the control
	// plane's own machines; where an EtcdCluster keeps etcd, set backup there.
	// +optional
	Backup *BackupSpec `json:"backup,omitempty"`

	// etcdMaintenance says how the members of etcd are tended. It needs etcd on the control plane's own machines; where an EtcdCluster keeps
	// etcd, set etcdMaintenance there.
	// +optional
	EtcdMaintenance EtcdMaintenanceSpec `json:"etcdMaintenance,omitempty,omitzero"`

	// powerState reports whether the cluster's machines run. Hibernated scales the MachineDeployments to 0, takes a backup of etcd, verifies
	// it, and then deletes all machines of the control plane. What is written after the backup is lost. Running makes the control plane
	// again from that backup, and gives the MachineDeployments the numbers back that they had. It needs backup, and etcd on the control
	// plane's own machines. Defaults to Running.
	// +optional
	PowerState PowerState `json:"powerState,omitempty"`
}

// AutoRepairSpec says when a machine counts as broken.
type AutoRepairSpec struct {
	// nodeStartupTimeoutSeconds is how long a machine may take until its Node exists. Defaults to 1200.
	// +optional
	// +kubebuilder:validation:Minimum=60
	NodeStartupTimeoutSeconds *int32 `json:"nodeStartupTimeoutSeconds,omitempty"`
	// unhealthyTimeoutSeconds is how long a Node may not be ready, or not report. Defaults to 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	UnhealthyTimeoutSeconds *int32 `json:"unhealthyTimeoutSeconds,omitempty"`
}

// JoinsSpec says how new machines join the control plane.
//
// +kubebuilder:validation:MinProperties=1
type JoinsSpec struct {
	// maxParallel is how many machines may join at the same time, once the first is initialised. Defaults to as many as are missing, where
	// that is safe. 1 joins one after the other, as upstream does.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxParallel *int32 `json:"maxParallel,omitempty"`
	// eager makes all machines at the same moment as the first, which initialises the cluster. The bootstrap of the others is held back
	// until they may join. Infrastructure that makes machines before it has their bootstrap data, as the local provider does, is ready by
	// then. Defaults to false: machines are made when they may join.
	// +optional
	Eager *bool `json:"eager,omitempty"`
	// overlap allows a rollout with maxSurge 1 to create the next machine while the infrastructure of the one before is still being deleted.
	// That one has left etcd, and its hook is removed. For that time there may be two machines more than replicas. Defaults to false: the
	// next machine is created when the one before is gone, because the infrastructure may have room for only one more.
	// +optional
	Overlap *bool `json:"overlap,omitempty"`
	// timeoutSeconds is how long after its creation, or its Node's registration, a machine may still add its member to etcd. If a machine is
	// deleted before that, its late member may cost the quorum. Quorate then keeps it out of etcd until it is gone, or waits for it where it
	// joins as a voter. Set it to more than the slowest boot takes: a member that is added later may cost the quorum. Defaults to 1800. At
	// least 600: kubeadm alone may take 5 minutes to find the cluster and 2 to add its member. At most 86400.
	// +optional
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// KubeadmControlPlaneStatus is upstream's status and what Quorate decided.
type KubeadmControlPlaneStatus struct {
	upstream.KubeadmControlPlaneStatus `json:",inline"`

	// plan is the step that was decided last, and why.
	// +optional
	Plan PlanStatus `json:"plan,omitempty,omitzero"`

	// certificateExpiry is the serving certificate, of all API servers and etcd members, that expires first. It is empty until Quorate has
	// seen one.
	// +optional
	CertificateExpiry CertificateExpiryStatus `json:"certificateExpiry,omitempty,omitzero"`

	// certificates is a summary of the certificates that the manager sees.
	// +optional
	Certificates CertificatesStatus `json:"certificates,omitempty,omitzero"`

	// backup is what came of the backups of etcd.
	// +optional
	Backup BackupStatus `json:"backup,omitempty,omitzero"`
}

// CertificateExpiryStatus is one serving certificate, and when it expires.
type CertificateExpiryStatus struct {
	// date is when the certificate expires.
	// +required
	Date metav1.Time `json:"date,omitempty,omitzero"`

	// machine is the name of the Machine whose certificate it is.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Machine string `json:"machine,omitempty"`

	// component is what shows the certificate: kube-apiserver or etcd.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Component string `json:"component,omitempty"`
}

// PlanStatus is one decision: the next step and why it is the next one.
//
// +kubebuilder:validation:MinProperties=1
type PlanStatus struct {
	// step is the next step with what it acts on, for example "Create demo-cp-2 in a", "Wait" or "Nothing".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Step string `json:"step,omitempty"`

	// rule is the name of the rule that decided.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Rule string `json:"rule,omitempty"`

	// reason is the decision's reason in one CamelCase word.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason,omitempty"`

	// message is the reason as a sentence, with names and numbers.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=kubeadmcontrolplanes,shortName=kcp,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta1=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=control-plane-quorate"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Available",type="string",JSONPath=`.status.conditions[?(@.type=="Available")].status`,description="The control plane accepts requests"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".spec.replicas",description="Machines wanted"
// +kubebuilder:printcolumn:name="Current",type="integer",JSONPath=".status.replicas",description="Machines there are"
// +kubebuilder:printcolumn:name="Ready",type="integer",JSONPath=".status.readyReplicas",description="Machines that are ready"
// +kubebuilder:printcolumn:name="Up-to-date",type=integer,JSONPath=".status.upToDateReplicas",description="Machines as wanted"
// +kubebuilder:printcolumn:name="Next",type="string",JSONPath=".status.plan.step",description="The next step"
// +kubebuilder:printcolumn:name="Why",type="string",JSONPath=".status.plan.message",description="Why it is the next step",priority=10
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=`.status.conditions[?(@.type=="Paused")].status`,description="Reconciliation paused",priority=10
// +kubebuilder:printcolumn:name="Initialized",type=boolean,JSONPath=".status.initialization.controlPlaneInitialized",description="The first machine accepts requests"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=".spec.version",description="Kubernetes version wanted"

// KubeadmControlPlane is a control plane of machines that kubeadm sets up.
type KubeadmControlPlane struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the control plane that is wanted.
	// +required
	Spec KubeadmControlPlaneSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed and decided.
	// +optional
	Status KubeadmControlPlaneStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions in the form that Cluster API's tools read.
func (in *KubeadmControlPlane) GetConditions() []metav1.Condition {
	return in.Status.Conditions
}

// SetConditions replaces the conditions.
func (in *KubeadmControlPlane) SetConditions(conditions []metav1.Condition) {
	in.Status.Conditions = conditions
}

// GetV1Beta1Conditions returns the conditions of the deprecated form.
func (in *KubeadmControlPlane) GetV1Beta1Conditions() clusterv1.Conditions {
	if in.Status.Deprecated == nil || in.Status.Deprecated.V1Beta1 == nil {
		return nil
	}
	return in.Status.Deprecated.V1Beta1.Conditions
}

// SetV1Beta1Conditions replaces the conditions of the deprecated form.
func (in *KubeadmControlPlane) SetV1Beta1Conditions(conditions clusterv1.Conditions) {
	if in.Status.Deprecated == nil {
		in.Status.Deprecated = &upstream.KubeadmControlPlaneDeprecatedStatus{}
	}
	if in.Status.Deprecated.V1Beta1 == nil {
		in.Status.Deprecated.V1Beta1 = &upstream.KubeadmControlPlaneV1Beta1DeprecatedStatus{}
	}
	in.Status.Deprecated.V1Beta1.Conditions = conditions
}

// +kubebuilder:object:root=true

// KubeadmControlPlaneList is a list of control planes.
type KubeadmControlPlaneList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the control planes.
	Items []KubeadmControlPlane `json:"items"`
}
