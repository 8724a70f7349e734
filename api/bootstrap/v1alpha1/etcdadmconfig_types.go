package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// DefaultEtcdVersion is the version of etcd that machines get whose configuration names none.
const DefaultEtcdVersion = "3.6.16"

// Format is the form of bootstrap data.
type Format string

// CloudConfig is bootstrap data for cloud-init.
const CloudConfig Format = "cloud-config"

// Ignition is bootstrap data for Ignition.
const Ignition Format = "ignition"

// Condition types of an EtcdadmConfig beside Ready and Paused.
const (
	// DataSecretAvailableCondition is true once the secret with the bootstrap data exists.
	DataSecretAvailableCondition = "DataSecretAvailable"
	// CertificatesAvailableCondition is true once there is an authority that the members' certificates are signed by.
	CertificatesAvailableCondition = "CertificatesAvailable"
)

// Reasons of the conditions of EtcdadmConfigs.
const (
	// AvailableReason: what the condition is about is there.
	AvailableReason = clusterv1.AvailableReason
	// WaitingForOwnerReason: no Machine refers to the configuration yet, or its Cluster is not known.
	WaitingForOwnerReason = "WaitingForOwner"
	// WaitingForClusterInfrastructureReason: the infrastructure of the cluster is not provisioned yet.
	WaitingForClusterInfrastructureReason = "WaitingForClusterInfrastructure"
	// WaitingForEtcdClusterReason: the Machine belongs to no EtcdCluster that exists.
	WaitingForEtcdClusterReason = "WaitingForEtcdCluster"
	// WaitingForFirstMemberReason: another machine is to become the first member, or this one may not yet.
	WaitingForFirstMemberReason = "WaitingForFirstMember"
	// WaitingForEndpointsReason: the etcd cluster was initialised, and its status names no member that could be joined.
	WaitingForEndpointsReason = "WaitingForEndpoints"
	// AuthorityMissingReason: the authority of an etcd cluster that runs has no secret. It cannot be created again.
	AuthorityMissingReason = "AuthorityMissing"
	// AuthorityInvalidReason: the secret of the authority cannot be used; the message says why.
	AuthorityInvalidReason = "AuthorityInvalid"
	// SpecInvalidReason: the configuration cannot be carried out; the message names the field.
	SpecInvalidReason = "SpecInvalid"
	// SecretMissingReason: a secret that a file or a user of the configuration refers to does not exist, or lacks the key.
	SecretMissingReason = "SecretMissing"
	// AnotherEtcdClusterReason: another EtcdCluster keeps the etcd of the Cluster, which can have only one.
	AnotherEtcdClusterReason = "AnotherEtcdCluster"
	// ReferenceRefusedReason: the Cluster's infrastructureRef names a kind that may not be referenced, or that the manager may not read.
	ReferenceRefusedReason = "ReferenceRefused"
)

// ServerNamesAnnotation on an EtcdadmConfig holds the names and addresses, separated by commas, that its member's serving certificate
// is good for beside the machine's own. It is written with the bootstrap data. Without it nothing is known of them.
const ServerNamesAnnotation = "bootstrap.cluster.x-k8s.io/etcd-server-names"

// EtcdadmConfigSpec is how a machine becomes a member of an etcd cluster.
type EtcdadmConfigSpec struct {
	// version is the version of etcd, such as 3.6.16, with or without a leading v. Defaults to 3.6.16.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^v?3[.][0-9]+[.][0-9]+(-[0-9A-Za-z.-]+)?$')",messageExpression="'version is ' + self + ': a version of etcd 3 such as 3.6.16 is accepted'"
	Version string `json:"version,omitempty"`

	// releaseURL is where etcd is downloaded from when it is not in the machine's image. The archive is
	// RELEASE-URL/vVERSION/etcd-vVERSION-linux-ARCH.tar.gz, with amd64 or arm64 for ARCH. Defaults to etcd's own releases.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	ReleaseURL string `json:"releaseURL,omitempty"`

	// etcdadmInstallCommands install etcdadm on the machine. Without them it is part of the machine's image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=10240
	EtcdadmInstallCommands []string `json:"etcdadmInstallCommands,omitempty"`

	// etcdadmArgs are flags of etcdadm, without leading dashes, with their values. install-dir, disk-priorities, log-level,
	// download-connect-timeout, release-url, server-cert-extra-sans and version are accepted; Quorate decides about all others.
	// +optional
	EtcdadmArgs map[string]string `json:"etcdadmArgs,omitempty"`

	// preEtcdadmCommands run before etcdadm does.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=10240
	PreEtcdadmCommands []string `json:"preEtcdadmCommands,omitempty"`

	// postEtcdadmCommands run after etcdadm did, whether etcd runs or not.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=10240
	PostEtcdadmCommands []string `json:"postEtcdadmCommands,omitempty"`

	// files are written to the machine before commands run.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=200
	Files []bootstrapv1.File `json:"files,omitempty"`

	// users are made on the machine.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	Users []bootstrapv1.User `json:"users,omitempty"`

	// ntp are time servers.
	// +optional
	NTP bootstrapv1.NTP `json:"ntp,omitempty,omitzero"`

	// proxy is what downloads and commands go through. etcd itself never does.
	// +optional
	Proxy ProxySpec `json:"proxy,omitempty,omitzero"`

	// format is the form of the bootstrap data. Defaults to cloud-config.
	// +optional
	// +kubebuilder:validation:Enum=cloud-config;ignition
	Format Format `json:"format,omitempty"`
}

// ProxySpec is what downloads and commands go through.
//
// +kubebuilder:validation:MinProperties=1
type ProxySpec struct {
	// httpProxy is the URL of the proxy for HTTP.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	HTTPProxy string `json:"httpProxy,omitempty"`

	// httpsProxy is the URL of the proxy for HTTPS.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	HTTPSProxy string `json:"httpsProxy,omitempty"`

	// noProxy are hosts, domains and ranges that are reached without a proxy.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=512
	NoProxy []string `json:"noProxy,omitempty"`
}

// EtcdadmConfigStatus is what was observed.
type EtcdadmConfigStatus struct {
	// conditions are Ready, DataSecretAvailable, CertificatesAvailable and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization is the part that Cluster API's contract asks for.
	// +optional
	Initialization InitializationStatus `json:"initialization,omitempty,omitzero"`

	// ready is true once there is bootstrap data, as initialization.dataSecretCreated is. Scripts for older contracts read it.
	// +optional
	Ready *bool `json:"ready,omitempty"`

	// dataSecretName is the name of the secret with the bootstrap data.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	DataSecretName string `json:"dataSecretName,omitempty"`

	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// InitializationStatus reports whether there is bootstrap data.
//
// +kubebuilder:validation:MinProperties=1
type InitializationStatus struct {
	// dataSecretCreated is true once the secret with the bootstrap data exists; it stays true.
	// +optional
	DataSecretCreated *bool `json:"dataSecretCreated,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=etcdadmconfigs,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1alpha1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=bootstrap-quorate"
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Data secret created",type="boolean",JSONPath=".status.initialization.dataSecretCreated",description="Whether there is bootstrap data"
// +kubebuilder:printcolumn:name="Why",type="string",JSONPath=`.status.conditions[?(@.type=="DataSecretAvailable")].message`,description="What the bootstrap data waits for",priority=10
// +kubebuilder:printcolumn:name="Paused",type="string",JSONPath=`.status.conditions[?(@.type=="Paused")].status`,description="Reconciliation paused",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// EtcdadmConfig is how one machine becomes a member of an etcd cluster, by etcdadm.
type EtcdadmConfig struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is how the machine becomes a member.
	// +optional
	Spec EtcdadmConfigSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed.
	// +optional
	Status EtcdadmConfigStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions in the form that Cluster API's tools read.
func (in *EtcdadmConfig) GetConditions() []metav1.Condition { return in.Status.Conditions }

// SetConditions replaces the conditions.
func (in *EtcdadmConfig) SetConditions(conditions []metav1.Condition) {
	in.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// EtcdadmConfigList is a list of configurations.
type EtcdadmConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the configurations.
	Items []EtcdadmConfig `json:"items"`
}
