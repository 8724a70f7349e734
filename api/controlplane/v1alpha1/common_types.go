package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/quorate/quorate/api/controlplane/v1beta2"
)

// DefaultMaxParallelJoins is the default of spec.joins.maxParallel, which is not in the schema.
const DefaultMaxParallelJoins = 1

// CommonSpec are the fields that a control plane and a template of control planes have in common.
//
// +kubebuilder:validation:XValidation:rule="!has(self.managedExternalEtcdRef) || self.?etcd.?management.orValue('None') == 'None'",fieldPath=".managedExternalEtcdRef",messageExpression="'managedExternalEtcdRef is ' + self.managedExternalEtcdRef.kind + ', and etcd.management is ' + self.etcd.management + ': None is accepted, as no etcd runs on the machines'"
// +kubebuilder:validation:XValidation:rule="!(self.?inPlace.?policy.orValue('Never') in ['Preferred', 'Only']) || self.?etcd.?management.orValue('None') != 'Operator'",fieldPath=".inPlace.policy",messageExpression="'inPlace.policy is ' + self.inPlace.policy + ', and etcd.management is Operator: Never and External are accepted, as Quorate cannot tell which member an operator can spare'"
type CommonSpec struct {
	// enableAutorepair reports whether unhealthy machines are replaced, by a MachineHealthCheck that the control plane owns,
	// with a limit that quorum allows: 1 of 3, 2 of 5, none of 1. Defaults to true.
	// +optional
	// +kubebuilder:default=true
	EnableAutorepair *bool `json:"enableAutorepair,omitempty"`

	// enableautorepair is how a design document spells enableAutorepair. It is refused, because it would be dropped without a word.
	// +optional
	// +kubebuilder:validation:XValidation:rule="false",message="enableautorepair is not a field: set enableAutorepair, with a capital A"
	EnableAutorepairMisspelled *bool `json:"enableautorepair,omitempty"`

	// health says when a machine counts as unhealthy.
	// +optional
	Health HealthSpec `json:"health,omitempty,omitzero"`

	// remediation limits how often unhealthy machines are replaced.
	// +optional
	Remediation RemediationSpec `json:"remediation,omitempty,omitzero"`

	// failureDomains are those that the machines are spread over. Defaults to all that the cluster has for control planes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`

	// selector selects the cluster's Machines that are adopted when no object controls them. Defaults to those with the label
	// cluster.x-k8s.io/control-plane.
	// +optional
	// +kubebuilder:validation:XValidation:rule="size(self.?matchLabels.orValue({})) > 0 || size(self.?matchExpressions.orValue([])) > 0",message="selector is empty: it would adopt every Machine of the cluster; at least one of matchLabels and matchExpressions is needed"
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// providerSpec describes infrastructure machines without a template.
	// +optional
	ProviderSpec ProviderSpec `json:"providerSpec,omitempty,omitzero"`

	// etcd says who manages the etcd members on the machines.
	// +optional
	Etcd EtcdSpec `json:"etcd,omitempty,omitzero"`

	// managedExternalEtcdRef refers to the object that keeps the control plane's etcd on machines of its own, such as an EtcdCluster, in the
	// same namespace. The control plane waits until that is ready. With a KubeadmConfigTemplate, which must not configure etcd then,
	// machines are made with the endpoints from its status. Other bootstrap providers get no endpoints, and find the certificates in the
	// secrets CLUSTER-etcd and CLUSTER-apiserver-etcd-client. etcd.management is None. It cannot be changed: the data are in the etcd that
	// it names.
	// +optional
	ManagedExternalEtcdRef v1beta2.ManagedEtcdReference `json:"managedExternalEtcdRef,omitempty,omitzero"`

	// joins says how new machines join the control plane.
	// +optional
	Joins JoinsSpec `json:"joins,omitempty,omitzero"`

	// machineNaming says how machines are named.
	// +optional
	MachineNaming MachineNamingSpec `json:"machineNaming,omitempty,omitzero"`

	// inPlace reports whether machines that are behind are changed in place instead of being replaced. The policies Preferred and Only need a
	// KubeadmConfigTemplate in machineTemplate.spec.bootstrap.configRef.
	// +optional
	InPlace v1beta2.InPlaceSpec `json:"inPlace,omitempty,omitzero"`

	// approval reports whether a person must approve before machines are replaced or changed in place, and how many are in a day.
	// +optional
	Approval v1beta2.ApprovalSpec `json:"approval,omitempty,omitzero"`

	// backup takes backups of etcd by a schedule, and proves that they can be restored. Defaults to none. It needs etcd on the control
	// plane's own machines, managed by Quorate.
	// +optional
	Backup *v1beta2.BackupSpec `json:"backup,omitempty"`
}

// HealthSpec says when a machine counts as unhealthy.
//
// +kubebuilder:validation:MinProperties=1
type HealthSpec struct {
	// nodeStartupTimeoutSeconds is how long a machine may take until its Node exists. Defaults to 1200.
	// +optional
	// +kubebuilder:validation:Minimum=60
	NodeStartupTimeoutSeconds *int32 `json:"nodeStartupTimeoutSeconds,omitempty"`

	// unhealthyTimeoutSeconds is how long a Node may not be ready, or not report. Defaults to 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	UnhealthyTimeoutSeconds *int32 `json:"unhealthyTimeoutSeconds,omitempty"`
}

// RemediationSpec limits how often unhealthy machines are replaced. It has the fields of KubeadmControlPlane's, with the
// same meaning.
//
// +kubebuilder:validation:MinProperties=1
type RemediationSpec struct {
	// maxRetry is how many replacements in a row may become unhealthy themselves before no further one is made. Without it
	// there is no limit.
	// +optional
	MaxRetry *int32 `json:"maxRetry,omitempty"`

	// retryPeriodSeconds is how long to wait before a replacement that became unhealthy is replaced. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RetryPeriodSeconds *int32 `json:"retryPeriodSeconds,omitempty"`

	// minHealthyPeriodSeconds is how long after a replacement a failure of the new machine counts as a retry of it; a later
	// one is counted from 0. Defaults to 3600.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinHealthyPeriodSeconds *int32 `json:"minHealthyPeriodSeconds,omitempty"`
}

// ProviderSpec describes infrastructure machines without a template.
type ProviderSpec struct {
	// value is an infrastructure machine: apiVersion, kind, spec, and labels and annotations in metadata. Machines are made
	// from it as from a template, each with a name of its own. Another value replaces the machines. Exactly one of value and
	// spec.machineTemplate.spec.infrastructureRef is needed.
	// +optional
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:XValidation:rule="!has(self.metadata) || !has(self.metadata.name) && !has(self.metadata.generateName)",messageExpression="(has(self.metadata.name) ? 'metadata.name is ' + self.metadata.name : 'metadata.generateName is ' + self.metadata.generateName) + ': none is accepted, as each machine gets a name of its own'"
	// +kubebuilder:validation:XValidation:rule="!has(self.kind) || !self.kind.endsWith('Template')",messageExpression="'kind is ' + self.kind + ': the kind of an infrastructure machine is accepted, such as LocalMachine; a template belongs in spec.machineTemplate.spec.infrastructureRef'"
	Value *runtime.RawExtension `json:"value,omitempty"`
}

// EtcdManagement says who manages the etcd members on a control plane's machines.
type EtcdManagement string

const (
	// EtcdManagementMembers is etcd on the machines whose members Quorate asks for their health, and removes before their machines go.
	EtcdManagementMembers EtcdManagement = "Members"
	// EtcdManagementOperator is etcd on the machines that an operator in the cluster manages.
	EtcdManagementOperator EtcdManagement = "Operator"
	// EtcdManagementNone is machines without etcd.
	EtcdManagementNone EtcdManagement = "None"
)

// EtcdSpec says who manages the etcd members on the machines.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.operator) || has(self.management) && self.management == 'Operator'",fieldPath=".operator",messageExpression="'operator is given, and management is ' + (has(self.management) ? self.management : 'missing') + ': operator is accepted only with management Operator'"
type EtcdSpec struct {
	// management says who manages the etcd members on the machines. Members: Quorate asks each for its health, and removes
	// it before its machine goes. Operator: an etcd operator in the managed cluster does; Quorate reads etcd's health from a
	// condition of the object in operator, and a machine goes when the operator's hooks on it are gone. None: no etcd runs on
	// the machines, and their Nodes alone decide. Defaults to None with managedExternalEtcdRef, else to Members where the cluster
	// has an etcd authority, the secret CLUSTER-etcd, else to None.
	// +optional
	// +kubebuilder:validation:Enum=Members;Operator;None
	Management EtcdManagement `json:"management,omitempty"`

	// operator is the object in the managed cluster whose condition reports etcd's health. Defaults to etcds.operator.openshift.io/cluster
	// and its condition EtcdMembersAvailable.
	// +optional
	Operator EtcdOperatorReference `json:"operator,omitempty,omitzero"`
}

// EtcdOperatorReference is an object in the managed cluster, and its condition that tells etcd's health.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="has(self.apiVersion) == has(self.kind)",messageExpression="(has(self.kind) ? 'kind is ' + self.kind + ' and apiVersion is missing' : 'apiVersion is ' + self.apiVersion + ' and kind is missing') + ': both or none are accepted'"
type EtcdOperatorReference struct {
	// apiVersion is the object's group and version. Defaults to operator.openshift.io/v1.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[a-z]([-a-z0-9]*[a-z0-9])?$`
	APIVersion string `json:"apiVersion,omitempty"`

	// kind is the object's kind. Defaults to Etcd.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind,omitempty"`

	// name is the object's name. Defaults to cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name,omitempty"`

	// namespace is the object's namespace. Without it the object is cluster-scoped.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// conditionType is the type of the condition in the object's status.conditions that tells etcd's health. With status True
	// all members are healthy; with False, Unknown or no such condition they are not known to be. Defaults to
	// EtcdMembersAvailable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	ConditionType string `json:"conditionType,omitempty"`
}

// WithDefaults returns the reference with the defaults of what is left out.
func (r EtcdOperatorReference) WithDefaults() EtcdOperatorReference {
	if r.APIVersion == "" {
		r.APIVersion = "operator.openshift.io/v1"
	}
	if r.Kind == "" {
		r.Kind = "Etcd"
	}
	if r.Name == "" {
		r.Name = "cluster"
	}
	if r.ConditionType == "" {
		r.ConditionType = "EtcdMembersAvailable"
	}
	return r
}

// JoinsSpec says how new machines join the control plane.
//
// +kubebuilder:validation:MinProperties=1
type JoinsSpec struct {
	// maxParallel is how many machines may join at the same time, once the first is initialised. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxParallel *int32 `json:"maxParallel,omitempty"`
	// overlap allows a rollout that creates a machine before it deletes one to create the next while the infrastructure of the one before is
	// still being deleted. That one has left etcd, and its hook is removed. For that time there may be two machines more than replicas.
	// Defaults to false: the next machine is created when the one before is gone, because the infrastructure may have room for only one
	// more.
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

// MachineNamingSpec says how machines are named.
//
// +kubebuilder:validation:MinProperties=1
type MachineNamingSpec struct {
	// template is a Go template of the names of Machines, infrastructure machines and bootstrap configurations. It may use
	// .cluster.name, .controlPlane.name and .random, which becomes the machine's number and is needed. Names that would
	// become longer than 63 characters are cut. Defaults to `{{ .controlPlane.name }}-{{ .random }}`.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Template string `json:"template,omitempty"`
}

// BootstrapSpec is where machines get their bootstrap data from.
//
// +kubebuilder:validation:XValidation:rule="has(self.configRef) != has(self.dataSecretName)",messageExpression="has(self.configRef) ? 'configRef is ' + self.configRef.kind + ' ' + self.configRef.name + ' and dataSecretName is ' + self.dataSecretName + ': exactly one of configRef and dataSecretName is accepted' : 'configRef and dataSecretName are both missing: exactly one of them is needed'"
type BootstrapSpec struct {
	// configRef refers to a template of any bootstrap provider, in the control plane's namespace. Each machine gets a bootstrap
	// configuration made from it. Another template replaces the machines.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.kind.endsWith('Template')",fieldPath=".kind",messageExpression="'kind is ' + self.kind + ': the kind of a template is accepted, which ends in Template, such as KubeadmConfigTemplate'"
	ConfigRef clusterv1.ContractVersionedObjectReference `json:"configRef,omitempty,omitzero"`

	// dataSecretName is the name of a secret with bootstrap data, in the control plane's namespace. All machines get the same.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName *string `json:"dataSecretName,omitempty"`
}
