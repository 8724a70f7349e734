package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"

	bootstrapv1beta1 "github.com/quorate/quorate/api/bootstrap/v1beta1"
)

const (
	// OtherFinalizer is the finalizer of aws/etcdadm-controller. As long as an EtcdadmCluster has it, that controller may act on it.
	OtherFinalizer = "etcdcluster.cluster.x-k8s.io"
	// TakeOverAnnotation on an EtcdadmCluster says that aws/etcdadm-controller does not run any more, and that Quorate takes the etcd
	// cluster over. Its value is "true".
	TakeOverAnnotation = "etcdcluster.cluster.x-k8s.io/quorate-take-over"
)

// EtcdClusterReadyCondition is true once the EtcdCluster that Quorate keeps for the EtcdadmCluster can be used.
const EtcdClusterReadyCondition clusterv1beta1.ConditionType = "EtcdClusterReady"

// EtcdadmClusterSpec is the etcd cluster that is wanted.
type EtcdadmClusterSpec struct {
	// replicas is the number of members wanted: 1, 3, 5 or 7. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self >= 1 && self <= 7 && self % 2 == 1",messageExpression="'replicas is %d: must be 1, 3, 5 or 7'.format([self])"
	Replicas *int32 `json:"replicas,omitempty"`

	// infrastructureTemplate refers to the template of infrastructure machines, in the same namespace.
	InfrastructureTemplate corev1.ObjectReference `json:"infrastructureTemplate"`

	// etcdadmConfigSpec is how the machines become members.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.bottlerocketConfig)",fieldPath=".bottlerocketConfig",message="must not be set: Quorate makes etcd machines with cloud-init and systemd, and Bottlerocket has no shell that could run etcdadm"
	// +kubebuilder:validation:XValidation:rule="!has(self.format) || self.format != 'bottlerocket'",fieldPath=".format",message="must be cloud-config: Quorate makes etcd machines with cloud-init and systemd"
	// +kubebuilder:validation:XValidation:rule="!has(self.registryMirror)",fieldPath=".registryMirror",message="must not be set: Quorate's etcd machines pull no images; cloudInitConfig.etcdReleaseURL names a mirror of etcd's archives"
	// +kubebuilder:validation:XValidation:rule="!has(self.cipherSuites)",fieldPath=".cipherSuites",message="must not be set: Quorate's etcdadm has no such flag; a drop-in of etcd.service in files can set ETCD_CIPHER_SUITES"
	// +kubebuilder:validation:XValidation:rule="!has(self.certBundles)",fieldPath=".certBundles",message="must not be set: write certificates with files, and run update-ca-certificates in preEtcdadmCommands"
	EtcdadmConfigSpec bootstrapv1beta1.EtcdadmConfigSpec `json:"etcdadmConfigSpec,omitempty"`
}

// EtcdadmClusterStatus is what was observed. A control plane can use its fields ready and endpoints, as those of an EtcdCluster.
type EtcdadmClusterStatus struct {
	// replicas is the number of machines.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`
	// initMachineAddress is the address of the machine that became the first member.
	// +optional
	InitMachineAddress string `json:"initMachineAddress,omitempty"`
	// initialized is true once there was a member.
	// +optional
	Initialized bool `json:"initialized,omitempty"`
	// ready is true once a control plane can use the etcd cluster.
	// +optional
	Ready bool `json:"ready,omitempty"`
	// creationComplete is true once all members were there.
	// +optional
	CreationComplete bool `json:"creationComplete,omitempty"`
	// endpoints are the URLs at which the etcd cluster is reached, separated by commas.
	// +optional
	Endpoints string `json:"endpoints,omitempty"`
	// selector selects the Machines.
	// +optional
	Selector string `json:"selector,omitempty"`
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions has EtcdClusterReady, with what Quorate waits for.
	// +optional
	Conditions clusterv1beta1.Conditions `json:"conditions,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=etcdadmclusters,scope=Namespaced,categories=cluster-api
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta1"
// +kubebuilder:metadata:labels="cluster.x-k8s.io/provider=control-plane-quorate"
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move="
// +kubebuilder:printcolumn:name="Cluster",type="string",JSONPath=".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']",description="Cluster"
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=".spec.replicas",description="Members wanted"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=".status.replicas",description="Machines there are"
// +kubebuilder:printcolumn:name="Ready",type=boolean,JSONPath=".status.ready",description="A control plane can use it"
// +kubebuilder:printcolumn:name="Why",type="string",JSONPath=`.status.conditions[?(@.type=="EtcdClusterReady")].message`,description="The reason why the etcd cluster is not ready",priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"

// EtcdadmCluster is an etcd cluster as aws/etcdadm-controller knows it. Quorate keeps an EtcdCluster of the same name for it.
type EtcdadmCluster struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the etcd cluster that is wanted.
	Spec EtcdadmClusterSpec `json:"spec"`
	// status is what was observed.
	// +optional
	Status EtcdadmClusterStatus `json:"status,omitempty"`
}

// +kubebuilder:object:root=true

// EtcdadmClusterList is a list of etcd clusters.
type EtcdadmClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard list's metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the etcd clusters.
	Items []EtcdadmCluster `json:"items"`
}
